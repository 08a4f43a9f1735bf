"""PySpark jobs that fill the lake (import, ingest, offload) and compute rollups, baselines and reports from
it.

Called by `controlplane history …` and by spark-submit; never imported by the server. They write through
`controlplane.lake`.
"""
