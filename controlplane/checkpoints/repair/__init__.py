"""Surgery on checkpoints: rewind, repair and undo, never without a plan shown, a backup and a way back.

Pure plans (`cutting`, `rewinds`, `repairs`, `undoing`) of small steps; one thin shell does them (`folders`, `acting`).
Called by `controlplane.cli.checkpoints.repair`; calls the judge and the collector. `docs/decisions/0025` says why.
"""
