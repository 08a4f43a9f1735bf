"""A plain PySpark program with two queries in trouble, side by side in one driver.

`clicks_slow` reads a stream that grows faster than it may read; `payments_poison` dies on a record that is
not a payment. Usage: clicks.py FOLDER [QUERY…]; it reads FOLDER/input/payments. The death of
`payments_poison` does not end the program: it waits for `clicks_slow` alone.
"""

import sys
import threading
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

PARTITIONS = 2


class ClickReader(DataSourceStreamReader):
    """Offsets have Kafka's shape. Clicks have arrived steadily since `since`, read or not."""

    def __init__(self, options: MutableMapping[str, str]):
        self.rate = float(options["rows_per_second"])
        self.most = int(options["max_rows_per_batch"])
        self.since = float(options["since"])

    def head(self) -> dict:
        each = int(max(0.0, time.time() - self.since) * self.rate) // PARTITIONS
        return {"clicks": {str(number): each for number in range(PARTITIONS)}}

    def initialOffset(self) -> dict:
        return {"clicks": {str(number): 0 for number in range(PARTITIONS)}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.most)

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        head = self.head()["clicks"]
        if isinstance(limit, ReadAllAvailable):
            return {"clicks": head}
        most = getattr(limit, "max_rows", self.most) // PARTITIONS
        return {"clicks": {p: min(head[p], seen + most) for p, seen in start["clicks"].items()}}

    def reportLatestOffset(self) -> dict:
        return self.head()

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        ends = end["clicks"]
        spans = [(int(p), first, ends[p]) for p, first in start["clicks"].items()]
        return [InputPartition(span) for span in spans if span[2] > span[1]]

    def read(self, partition: InputPartition) -> Iterator[tuple]:
        number, first, last = partition.value
        for offset in range(first, last):
            clicked_at = self.since + offset * PARTITIONS / self.rate
            yield number, offset, f"user-{offset * 7919 % 1000}", clicked_at


class ClickSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "clicks"

    def schema(self) -> str:
        return "partition INT, offset BIGINT, user STRING, clicked_at DOUBLE"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return ClickReader(self.options)


def session() -> SparkSession:
    return (
        SparkSession.builder.appName("demo-clicks")
        .master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def first_start(folder: Path) -> float:
    """When this stream began, in Unix seconds. In a file, since old clicks keep their offsets."""
    kept = folder / "clicks_began"
    if not kept.exists():
        kept.write_text(str(time.time()))
    return float(kept.read_text())


def start_clicks(spark: SparkSession, folder: Path) -> StreamingQuery:
    """200 clicks arrive a second; at most 200 are read every two seconds, 100 a second."""
    spark.dataSource.register(ClickSource)
    clicks = (
        spark.readStream.format("clicks")
        .option("rows_per_second", "200")
        .option("max_rows_per_batch", "200")
        .option("since", str(first_start(folder)))
        .load()
    )
    return (
        clicks.groupBy("user")
        .count()
        .writeStream.queryName("clicks_slow")
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoints/clicks_slow"))
        .trigger(processingTime="2 seconds")
        .start()
    )


def start_payments(spark: SparkSession, folder: Path) -> StreamingQuery:
    payments = spark.readStream.schema("payment_id BIGINT, amount STRING").json(
        str(folder / "input/payments")
    )
    return (
        payments.select("payment_id", F.col("amount").cast("DECIMAL(12, 2)").alias("amount"))
        .writeStream.queryName("payments_poison")
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints/payments_poison"))
        .trigger(processingTime="2 seconds")
        .start(str(folder / "output/payments"))
    )


STARTS = {"clicks_slow": start_clicks, "payments_poison": start_payments}


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(STARTS)
    spark = session()
    spark.sparkContext.setLogLevel("WARN")
    queries = {name: STARTS[name](spark, folder) for name in wanted}
    if "clicks_slow" in queries:
        queries["clicks_slow"].awaitTermination()
    else:
        threading.Event().wait()  # payments_poison alone: stay when it dies, so that it can be started again


if __name__ == "__main__":
    main()
