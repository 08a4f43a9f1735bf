"""The HTTP API: routes, who may call them, bodies in and out, the one error shape.

Called by people and programs (`controlplane.cli`, `ui`, agents); calls ingest, the store, the window
and the control room that `controlplane.app` has wired. Routes are thin: they ask and render.
"""
