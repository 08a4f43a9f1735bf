"""Applications: declared in `apps.yaml`, started and stopped by launchers, never started twice.

`apps_file` reads the file, `launchers` start and stop drivers, `guard` decides whether a start is safe, and `service`
stores and carries out what was requested. Called by `controlplane.app` and the API; calls the store.
"""
