"""The demonstration: real Spark drivers with named troubles, watched by a real server and dashboard.

Called by `controlplane.cli.demo`; starts the server, the dashboard and the drivers as child processes and
speaks to the server over HTTP, as any client does. `programs/` are plain PySpark programs that import
nothing of ours.
"""
