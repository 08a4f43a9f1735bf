"""A plain PySpark program with one continuous query.

continuous.py BASE   keeps its checkpoint below BASE
"""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.format("rate").option("rowsPerSecond", 5).option("numPartitions", 1).load()
query = (
    rows.writeStream.format("noop")
    .queryName("epochs")
    .option("checkpointLocation", sys.argv[1] + "/checkpoint-epochs")
    .trigger(continuous="1 second")
    .start()
)
query.awaitTermination()
