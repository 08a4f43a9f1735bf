"""Two queries, and one way in which a program ends.

ends.py BASE HOW   return, raise or exit once BASE/go exists; `wait` for a query to end; `survive` its end; `exhaust`
                   the JVM's heap once BASE/go exists
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

base, how = Path(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
for name in ("orders", "clicks"):
    rows = spark.readStream.format("rate").load()
    writer = rows.writeStream.format("noop").queryName(name).trigger(processingTime="500 milliseconds")
    writer.option("checkpointLocation", str(base / name)).start()


def wait_for_go():
    while not (base / "go").exists():
        time.sleep(0.1)


if how == "wait":
    spark.streams.awaitAnyTermination()
elif how == "survive":
    try:
        spark.streams.awaitAnyTermination()
    except Exception:
        time.sleep(600)
else:
    wait_for_go()
if how == "raise":
    raise ValueError("poison")
if how == "exit":
    sys.exit(3)
held = []
while how == "exhaust":
    held.append(spark._jvm.java.nio.ByteBuffer.allocate(32 << 20))
