"""A plain PySpark program: five healthy streaming queries over folders of order and payment files.

`orders_copy` copies the orders into Parquet; `orders_by_minute` counts them by minute and shop, with its
state in RocksDB; `orders_paid` joins them with their payments; `orders_once` drops those that came twice;
`orders_backfill` reads what is there and ends. Usage: orders.py FOLDER [QUERY…]; it reads FOLDER/input.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

ORDERS = "order_id BIGINT, shop STRING, amount DOUBLE, ordered_at TIMESTAMP"
PAYMENTS = "payment_id BIGINT, order_id BIGINT, amount STRING, paid_at TIMESTAMP"


def session() -> SparkSession:
    return (
        SparkSession.builder.appName("demo-orders")
        .master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def read_orders(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(ORDERS).option("maxFilesPerTrigger", 50).json(str(folder / "input/orders"))


def read_payments(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(PAYMENTS).option("maxFilesPerTrigger", 50)
    return files.json(str(folder / "input/payments"))


def start_copy(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_orders(spark, folder)
        .writeStream.queryName("orders_copy")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_copy"))
        .trigger(processingTime="8 seconds")
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
        .trigger(processingTime="10 seconds")
        .start(str(folder / "output/orders_by_minute"))
    )


def start_paid(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Both sides have a watermark and the join a time limit, so an order is forgotten after a while."""
    orders = read_orders(spark, folder).withWatermark("ordered_at", "20 seconds")
    payments = read_payments(spark, folder).withWatermark("paid_at", "20 seconds").alias("payment")
    paid = orders.alias("ordered").join(
        payments,
        F.expr(
            "ordered.order_id = payment.order_id "
            "AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 20 SECONDS"
        ),
    )
    return (
        paid.select("payment_id", "ordered.order_id", "shop", "ordered_at", "paid_at")
        .writeStream.queryName("orders_paid")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_paid"))
        .trigger(processingTime="10 seconds")
        .start(str(folder / "output/orders_paid"))
    )


def start_once(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Shops send some orders twice; the second within half a minute is dropped."""
    return (
        read_orders(spark, folder)
        .withWatermark("ordered_at", "30 seconds")
        .dropDuplicatesWithinWatermark(["order_id"])
        .writeStream.queryName("orders_once")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_once"))
        .trigger(processingTime="10 seconds")
        .start(str(folder / "output/orders_once"))
    )


def start_backfill(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_orders(spark, folder)
        .writeStream.queryName("orders_backfill")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/orders_backfill"))
        .trigger(availableNow=True)
        .start(str(folder / "output/orders_backfill"))
    )


STARTS = {
    "orders_backfill": start_backfill,
    "orders_copy": start_copy,
    "orders_by_minute": start_by_minute,
    "orders_paid": start_paid,
    "orders_once": start_once,
}


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(STARTS)
    spark = session()
    spark.sparkContext.setLogLevel("WARN")
    queries = [STARTS[name](spark, folder) for name in STARTS if name in wanted]
    queries[-1].awaitTermination()


if __name__ == "__main__":
    main()
