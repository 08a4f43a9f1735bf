"""The HTTP API: FastAPI routes, request and response bodies, access control and error responses.

Called by `controlplane.cli`; uses the services that `controlplane.app` has wired. Routes are thin: they call a
service and render its result.
"""
