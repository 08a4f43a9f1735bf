"""The lake: Parquet tables with the history of every query. No Spark in this package.

The jobs of `controlplane.pipeline` write the lake, on executors too. They read it as well, as do the server
(for times older than its store) and any Parquet reader.
"""
