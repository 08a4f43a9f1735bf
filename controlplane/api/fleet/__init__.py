"""The fleet as the API answers it: cached rows, filters, pages and changes."""
