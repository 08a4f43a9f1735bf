"""Supervision: policies decide whether a query in trouble is restarted, and the ledger keeps every decision.

`driver_leases` and `driver_grants` let drivers restart queries themselves; `checkpoint_leases` knows who writes to each
checkpoint. `policy_file` reads the policies, `decision` decides, `retries` counts, `outcomes` fills in what became of a decision:
all pure, with `now` as an argument. `desired_states` and `supervisor` are the shells, called by `controlplane.app` and
the API; they call `controlplane.actions` and the store.
"""
