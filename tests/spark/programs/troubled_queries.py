"""Queries that fail when a test asks for it; the program outlives them.

troubled_queries.py BASE   a query NAME fails once for a file BASE/NAME.fail; `poison` casts lines of BASE/in
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

base = Path(sys.argv[1])
spark = (
    SparkSession.builder.master("local[2]")
    .appName("troubled")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def sink_of(name):
    def write(rows, batch_id):
        try:
            # One failure a file: a restart, however early, finds the sink well again.
            (base / f"{name}.fail").unlink()
        except FileNotFoundError:
            pass
        else:
            raise ConnectionError(f"the sink of {name} does not answer")
        rows.count()
        (base / f"{name}.batch").write_text(str(batch_id))

    return write


def start(writer, name):
    return (
        writer.queryName(name)
        .option("checkpointLocation", str(base / f"checkpoint-{name}"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )


ticks = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
for name in ("flaky", "damaged", "unwanted"):
    start(ticks.writeStream.foreachBatch(sink_of(name)), name)
lines = spark.readStream.text(str(base / "in"))
start(lines.selectExpr("CAST(value AS INT) AS number").writeStream.format("noop"), "poison")
while True:
    time.sleep(1)
