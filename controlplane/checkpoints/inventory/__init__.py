"""Checkpoint inventories: the model, the collector over fsspec, and which files it selects."""
