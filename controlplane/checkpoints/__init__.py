"""Checkpoints: inventories, analysis, and repair.

A collector lists a checkpoint (`inventory`), the pure `analyzer` runs `checks` on what `reading` and `decoding`
parse, and `service` does so in the server. `repair` plans and executes rewind, repair and undo. Used by
`controlplane.cli.checkpoints`, the API and `controlplane.actions`; reasons: `docs/decisions/0023`.
"""
