"""Agents' events: parsing, Spark's progress JSON, the lifecycle of runs, the window of recent reports."""
