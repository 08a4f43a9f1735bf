"""The long past in the server, without Spark: events move to the lake, and what is older than the store is read there.

Wired by `controlplane.app`; asked by `controlplane.metrics.series` and `controlplane.api`. The job that moves is
`controlplane.pipeline.offload.offload_job`, a process of its own.
"""
