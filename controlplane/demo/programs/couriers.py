"""A plain PySpark program whose driver dies without a word, as when the kernel takes its memory back.

`couriers_gone` runs for a few batches, then the process kills itself. Usage: couriers.py FOLDER [QUERY…].
"""

import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

BATCHES_TO_LIVE = 6


def session() -> SparkSession:
    return (
        SparkSession.builder.appName("demo-couriers")
        .master("local[1]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def start_couriers(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 5)
        .load()
        .writeStream.queryName("couriers_gone")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoints/couriers_gone"))
        .trigger(processingTime="4 seconds")
        .start()
    )


def main() -> None:
    spark = session()
    spark.sparkContext.setLogLevel("WARN")
    query = start_couriers(spark, Path(sys.argv[1]))
    while (last := query.lastProgress) is None or last["batchId"] < BATCHES_TO_LIVE:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
