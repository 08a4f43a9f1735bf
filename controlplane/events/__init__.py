"""Agents' events: parsing, Spark's progress JSON, the lifecycle of runs, and the in-memory window of recent reports."""
