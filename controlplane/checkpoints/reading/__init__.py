"""Parsed contents of a checkpoint: logs, sources, state stores, and what a restart loads."""
