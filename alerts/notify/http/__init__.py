"""HTTP client of receivers: `http_config` of Alertmanager, bounded in time and size, with checked addresses."""
