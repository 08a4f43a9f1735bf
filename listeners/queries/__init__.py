"""Queries of this driver: how each was started, stopping, restarting, waiting, polling."""
