"""A plain PySpark program: copies what there is, looks into a worker, and states what it saw. Imports nothing of ours."""

import importlib
import json
import os
import sys

from pyspark.sql import SparkSession

#: The agent's package in a checkout and in a wheel.
AGENTS = ("listeners", "spark_controlplane")


def look(rows):
    hooks = [type(item).__name__ for item in sys.meta_path if hasattr(item, "controlplane")]
    yield [name for name in sys.modules if name.startswith(AGENTS)] + hooks


if __name__ == "__main__":
    source, target, checkpoint, report = sys.argv[1:]
    spark = SparkSession.builder.appName("copies").getOrCreate()
    read = spark.readStream.schema("key INT, value STRING").json(source)
    writer = read.writeStream.format("json").queryName("copies").option("path", target)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    inside = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
    rows = sorted(row.key for row in spark.read.schema("key INT").json(target).collect())
    own = [importlib.import_module(name).__file__ for name in os.environ.get("OWN_PACKAGES", "").split()]
    agent = sys.modules.get("spark_controlplane") or sys.modules.get("listeners")
    with open(report, "w") as file:
        json.dump({"rows": rows, "in_worker": inside, "agent": agent and agent.__file__, "own": own}, file)
    spark.stop()
