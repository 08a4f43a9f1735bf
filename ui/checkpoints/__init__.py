"""Checkpoint health on the screen: findings, tables, inventory requests."""
