"""The wire format and the metric catalogue, shared by agent and server."""
