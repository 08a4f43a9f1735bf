"""Bodies of checkpoints and of their changes, and their rendering. Called by `controlplane.api.routes`."""
