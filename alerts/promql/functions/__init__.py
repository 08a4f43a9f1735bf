"""PromQL functions by kind."""
