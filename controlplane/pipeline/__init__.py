"""The PySpark jobs: they fill the lake (import, ingest, move), and make rollups, baselines and reports of it.

Called by `controlplane history …` and by spark-submit; never imported by the server. They
write through `controlplane.lake`.
"""
