"""Import of Spark event logs into the lake.

`import_job` lists the logs and runs one Spark task a split; `split_reader` turns lines into rows: by
`columnar_decoder` the progress reports of Spark 3 and 4, by `event_parser` and `controlplane.lake.rows` everything else.
"""
