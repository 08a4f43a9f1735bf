"""One router a file, named by what it serves. Called by `controlplane.api.app` only."""
