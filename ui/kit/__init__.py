"""Building blocks of every page: HTTP client, cached reads, widgets, frames, charts, formatting."""
