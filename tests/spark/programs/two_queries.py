"""A plain PySpark program, as users write it: two queries, and a wait for the first at its end.

two_queries.py BASE [SECONDS]   reads BASE/in, writes BASE/out-orders and BASE/out-neighbour
"""

import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

base = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .appName("two-queries")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def start(name):
    rows = spark.readStream.schema("key INT, value STRING").option("maxFilesPerTrigger", 5).json(base + "/in")
    return (
        rows.writeStream.format("json")
        .queryName(name)
        .option("checkpointLocation", f"{base}/checkpoint-{name}")
        .option("path", f"{base}/out-{name}")
        .trigger(processingTime="200 milliseconds")
        .start()
    )


orders = start("orders")
neighbour = start("neighbour")


def report_handle():
    while True:
        Path(base, "handle").write_text(f"{orders.runId} {orders.isActive}")
        time.sleep(0.2)


threading.Thread(target=report_handle, daemon=True).start()
orders.awaitTermination()
Path(base, "ended").write_text("main went on after awaitTermination")
