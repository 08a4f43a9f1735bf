"""History in the server, without Spark: offloading events to the lake and reading times that the store no
longer has.

Wired by `controlplane.app`; called by `controlplane.metrics.series` and `controlplane.api`. The offload job
itself is `controlplane.pipeline.offload.offload_job`, a process of its own.
"""
