"""YAML subset of rule and routing files, parsed into a tree in which every scalar has its place.

Used by `alerts.rules`, `alerts.notify.config` and `alerts.unit_tests`; does no I/O.
"""
