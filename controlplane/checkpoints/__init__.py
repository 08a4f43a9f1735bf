"""The checkpoint doctor: will Spark start again from this checkpoint, and with the right results?

A collector writes down what is there (`inventory`, `collector`), a pure judge reads that (`reading`, `checks`,
`judge`). Called by `controlplane.cli.checkpoints.doctor`; calls nothing else of ours. `docs/decisions/0023` says why.
"""
