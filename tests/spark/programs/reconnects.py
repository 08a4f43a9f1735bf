"""A Spark Connect program with two queries that opens a new session when its server was started again.

reconnects.py BASE URL
"""

import sys
import time
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

base, url = Path(sys.argv[1]), sys.argv[2]


def run():
    spark = SparkSession.builder.remote(url).create()
    started = []
    for name in ("orders", "clicks"):
        writer = spark.readStream.format("rate").load().writeStream.format("noop").queryName(name)
        writer = writer.trigger(processingTime="500 milliseconds")
        started.append(writer.option("checkpointLocation", str(base / name)).start())
    while all(query.isActive for query in started):
        time.sleep(0.5)


while True:
    try:
        run()
    except Exception as error:
        print("reconnecting after", type(error).__name__, flush=True)
        time.sleep(1)
