"""Checks of a checkpoint, by subject: each is a short function from a `CheckpointView` to findings.

`controlplane.checkpoints.analyzer.CHECKS` lists them all.
"""
