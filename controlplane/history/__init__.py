"""The long past in the server, without Spark: events move to the lake, and what is older than the store is read there.

Wired by `controlplane.plane`; asked by `controlplane.series` and `controlplane.api`. The job that moves is
`controlplane.pipeline.moving`, a process of its own.
"""
