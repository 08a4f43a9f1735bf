"""A plain PySpark program: two healthy streaming queries over a folder of order files.

`orders_copy` copies the orders into Parquet; `orders_by_minute` counts them by minute and shop, with its
state in RocksDB. Usage: orders.py FOLDER [QUERY…]; it reads FOLDER/input/orders and ends with its last query.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "order_id BIGINT, shop STRING, amount DOUBLE, ordered_at TIMESTAMP"


def session() -> SparkSession:
    return (
        SparkSession.builder.appName("demo-orders")
        .master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def read_orders(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 50).json(str(folder / "input/orders"))


def start_copy(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_orders(spark, folder)
        .writeStream.queryName("orders_copy")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_copy"))
        .trigger(processingTime="2 seconds")
        .start(str(folder / "output/orders"))
    )


def start_by_minute(spark: SparkSession, folder: Path) -> StreamingQuery:
    counts = (
        read_orders(spark, folder)
        .withWatermark("ordered_at", "1 minute")
        .groupBy(F.window("ordered_at", "1 minute"), "shop")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("turnover"))
    )
    return (
        counts.select("window.start", "shop", "orders", "turnover")
        .writeStream.queryName("orders_by_minute")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_by_minute"))
        .trigger(processingTime="5 seconds")
        .start(str(folder / "output/orders_by_minute"))
    )


STARTS = {"orders_copy": start_copy, "orders_by_minute": start_by_minute}


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(STARTS)
    spark = session()
    spark.sparkContext.setLogLevel("WARN")
    queries = [STARTS[name](spark, folder) for name in wanted]
    queries[-1].awaitTermination()


if __name__ == "__main__":
    main()
