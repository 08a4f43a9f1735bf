"""Checkpoint inventories: the model, the collector over fsspec, and the selection of files to read."""
