"""The `controlplane history` commands."""
