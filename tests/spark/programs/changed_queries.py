"""Three queries on checkpoints in BASE, as they are or with a change that Spark's checkpoint does not allow.

changed_queries.py BASE before|after   reads BASE/in; runs until it is killed
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

base, changed = sys.argv[1], sys.argv[2] == "after"
spark = (
    SparkSession.builder.master("local[2]")
    .appName("changed")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
files = spark.readStream.schema("key INT, value STRING").json(base + "/in")
rate = spark.readStream.format("rate").load()
QUERIES = {
    "source_type": rate if changed else files,
    "new_state": files.groupBy("key").count() if changed else files,
    "keys": files.groupBy(F.col("value") if changed else F.col("key")).count(),
}
for name, rows in QUERIES.items():
    (
        rows.writeStream.format("noop")
        .queryName(name)
        .outputMode("update")
        .option("checkpointLocation", f"{base}/checkpoint-{name}")
        .start()
    )
while True:
    time.sleep(1)
