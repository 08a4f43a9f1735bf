"""`connect_guest.py plain|attached URL DIRECTORY`: a Connect program for any PySpark from 3.5 on.

Runs a query for three batches, stops it, and prints one line: {"batches", "stopped"}.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

kind, url, directory = sys.argv[1:4]
spark = SparkSession.builder.remote(url).appName("connect-guest").getOrCreate()
if kind == "attached":
    from listeners.attach import attach

    attach(spark)
rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
write = rate.writeStream.format("noop").queryName("guest").trigger(processingTime="200 milliseconds")
query = write.option("checkpointLocation", directory + "/checkpoint").start()
deadline = time.monotonic() + 60
while len(query.recentProgress) < 3 and time.monotonic() < deadline:
    time.sleep(0.1)
batches = min(3, len(query.recentProgress))
query.stop()
print(json.dumps({"batches": batches, "stopped": not query.isActive}))
