"""The lake: Parquet tables of what happened to every query, for years. No Spark in here.

Written by the jobs of `controlplane.pipeline`, on their executors too; read by them, by the server for what is older
than its store, and by any reader of Parquet.
"""
