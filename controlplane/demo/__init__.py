"""The demonstration: real Spark drivers with named troubles, watched by a real server and dashboard.

Called by `controlplane.cli.demo`. It starts the server, the dashboard and the drivers as child processes and
calls the server over HTTP. `programs/` has plain PySpark programs that import nothing of this project.
"""
