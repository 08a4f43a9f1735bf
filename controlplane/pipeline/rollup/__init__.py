"""Rollups and baselines: daily jobs that aggregate the raw tables of the lake."""
