"""One query that copies JSON files, one a batch: `file_copy.py INPUT OUTPUT CHECKPOINT`. The master is the launcher's."""

import sys

from pyspark.sql import SparkSession

source, sink, checkpoint = sys.argv[1:4]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1).json(source)
writer = rows.writeStream.queryName("copy").format("json").option("checkpointLocation", checkpoint)
writer.trigger(processingTime="300 milliseconds").start(sink).awaitTermination()
