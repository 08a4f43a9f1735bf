"""YAML as rule files and routing files use it, read into a tree in which every text knows its place.

Called by the loaders of `alerts.rules` and `alerts.notify.config`; calls nothing of ours and does no I/O.
"""
