"""Launchers: one file a kind, each with start, stop, state and the logs of a driver. `catalogue` lists them.

Called by `controlplane.apps.service` and, for the fields of the file, by `controlplane.apps.apps_file`.
"""
