"""Bodies of supervision (policies, desired states, the ledger) and their rendering. Called by `controlplane.api.routes`."""
