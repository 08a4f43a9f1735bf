"""Rewind, repair and undo of checkpoints, always with a plan shown first and a backup.

Pure modules plan small steps (`truncation`, `rewind_plan`, `repair_plan`); `execution` and `undo` carry them
out through `folders`. Called by `controlplane.cli.checkpoints`; uses the analyzer and the collector. Reasons:
`docs/decisions/0025`.
"""
