"""Count in RocksDB; batch 3 announces itself and does not end. Argument: a folder."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

place = Path(sys.argv[1])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)


def take(rows, number):
    rows.collect()
    if number == 3:
        (place / "in-batch-3").touch()
        time.sleep(600)


rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
counts = rows.groupBy((rows.value % 3).alias("k")).count()
writer = counts.writeStream.outputMode("update").foreachBatch(take)
writer.option("checkpointLocation", str(place / "checkpoint")).start().awaitTermination()
