"""Rollups and baselines: jobs that aggregate the raw tables of the lake."""
