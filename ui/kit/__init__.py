"""Building blocks of every page: HTTP client, cached reads, widgets, tables, charts, formatting."""
