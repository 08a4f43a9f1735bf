"""Real queries with an event log, and a listener beside it: `event_log.py FOLDER EVENTS CODEC ROLLING`.

CODEC `none` is a plain log. EVENTS gets a line of JSON an event, progress as Spark's own `json`.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQueryListener

FOLDER, RECEIVED, CODEC, ROLLING = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BATCHES, DEADLINE = 4, 120.0


class Writing(StreamingQueryListener):
    def __init__(self):
        self.file = RECEIVED.open("w")

    def say(self, **output):
        self.file.write(json.dumps(output) + "\n")
        self.file.flush()

    def onQueryStarted(self, event):
        self.say(kind="started", runId=str(event.runId))

    def onQueryProgress(self, event):
        self.say(kind="progress", report=json.loads(event.progress.json))

    def onQueryIdle(self, event):
        self.say(kind="idle", runId=str(event.runId))

    def onQueryTerminated(self, event):
        self.say(kind="terminated", runId=str(event.runId))


builder = (
    SparkSession.builder.master("local[2]")
    .appName("event-log")
    .config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", FOLDER.as_uri())
    .config("spark.eventLog.rolling.enabled", ROLLING)
    .config("spark.eventLog.compress", str(CODEC != "none").lower())
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
)
if CODEC != "none":
    builder = builder.config("spark.eventLog.compression.codec", CODEC)
spark = builder.getOrCreate()
spark.streams.addListener(Writing())
rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
windows = rate.withWatermark("timestamp", "5 seconds").groupBy(f.window("timestamp", "2 seconds")).count()
for name, frame in {"windows": windows, "once": rate.dropDuplicates(["value"])}.items():
    writer = frame.observe("seen", f.count(f.lit(1)).alias("rows")).writeStream.queryName(name)
    writer.outputMode("append").format("noop").option(
        "checkpointLocation", str(RECEIVED.parent / name)
    ).start()
until = time.monotonic() + DEADLINE
while time.monotonic() < until:
    if all((query.lastProgress or {}).get("batchId", 0) >= BATCHES for query in spark.streams.active):
        break
    time.sleep(0.1)
for query in spark.streams.active:
    query.stop()
spark.stop()
