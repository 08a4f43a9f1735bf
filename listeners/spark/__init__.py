"""Adapters to Spark: one `Engine` for classic (py4j) sessions, one for Spark Connect."""
