"""Metric samples of queries and agents, their exposition at `/metrics`, and the series that rules read."""
