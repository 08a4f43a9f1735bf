"""Checkpoint inventories, collected in the driver through Hadoop's FileSystem."""
