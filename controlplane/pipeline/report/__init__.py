"""The history report: statistics over the lake, rendered as HTML and JSON."""
