"""A plain PySpark program with five queries in trouble, side by side in one driver.

`clicks_slow` reads a stream that grows faster than it may read; `clicks_blocked` reads one partition of two;
`visits_growing` remembers every visitor for ever; `visits_waiting` waits for an input that fell silent;
`payments_poison` dies on a record that is not a payment, and the program lives on.
Usage: clicks.py FOLDER [QUERY…]; it reads FOLDER/input.
"""

import sys
import threading
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

PARTITIONS = 2
#: `clicks_slow` begins with so many seconds of clicks unread: it is behind from the start.
BACKLOG_SECONDS = 65.0
#: Visitors that are known at first; their number doubles in so many seconds, for so many, then goes on evenly.
VISITORS, DOUBLING_SECONDS, DOUBLING_FOR_SECONDS = 8000, 200, 1500
VISITS_PER_SECOND = 10


class ClickReader(DataSourceStreamReader):
    """Offsets have Kafka's shape. Clicks have arrived steadily since `since`, read or not.

    A `blocked` partition is never read, as one whose leader is lost.
    """

    def __init__(self, options: MutableMapping[str, str]):
        self.rate = float(options["rows_per_second"])
        self.most = int(options["max_rows_per_batch"])
        self.since = float(options["since"])
        self.blocked = options.get("blocked", "")

    def head(self) -> dict:
        each = int(max(0.0, time.time() - self.since) * self.rate) // PARTITIONS
        return {"clicks": {str(number): each for number in range(PARTITIONS)}}

    def initialOffset(self) -> dict:
        return {"clicks": {str(number): 0 for number in range(PARTITIONS)}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.most)

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        head = {**self.head()["clicks"], **self.seen_of_blocked(start)}
        if isinstance(limit, ReadAllAvailable):
            return {"clicks": head}
        most = getattr(limit, "max_rows", self.most) // PARTITIONS
        return {"clicks": {p: min(head[p], seen + most) for p, seen in start["clicks"].items()}}

    def seen_of_blocked(self, start: dict) -> dict:
        return {p: seen for p, seen in start["clicks"].items() if p == self.blocked}

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
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def first_start(folder: Path, stream: str, backlog: float) -> float:
    """When this stream began, in Unix seconds. In a file, since old clicks keep their offsets."""
    kept = folder / f"{stream}_began"
    if not kept.exists():
        kept.write_text(str(time.time() - backlog))
    return float(kept.read_text())


def start_clicks(spark: SparkSession, folder: Path) -> StreamingQuery:
    """200 clicks arrive a second; at most 1 280 are read every eight seconds, 160 a second."""
    spark.dataSource.register(ClickSource)
    clicks = (
        spark.readStream.format("clicks")
        .option("rows_per_second", "200")
        .option("max_rows_per_batch", "1280")
        .option("since", str(first_start(folder, "clicks", BACKLOG_SECONDS)))
        .load()
    )
    return (
        clicks.groupBy("user")
        .count()
        .writeStream.queryName("clicks_slow")
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoints/clicks_slow"))
        .trigger(processingTime="8 seconds")
        .start()
    )


def start_blocked(spark: SparkSession, folder: Path) -> StreamingQuery:
    """20 clicks arrive a second, half of them in a partition that is never read."""
    spark.dataSource.register(ClickSource)
    clicks = (
        spark.readStream.format("clicks")
        .option("rows_per_second", "20")
        .option("max_rows_per_batch", "1000")
        .option("since", str(first_start(folder, "blocked_clicks", 20.0)))
        .option("blocked", "1")
        .load()
    )
    return (
        clicks.writeStream.queryName("clicks_blocked")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoints/clicks_blocked"))
        .trigger(processingTime="5 seconds")
        .start()
    )


def known_visitors(tick: str) -> str:
    """SQL: how many visitors are known at this tick of the clock, which makes VISITS_PER_SECOND a second."""
    doubling, last = DOUBLING_SECONDS * VISITS_PER_SECOND, DOUBLING_FOR_SECONDS * VISITS_PER_SECOND
    in_a_tick = round(VISITORS * 2 ** (last / doubling) * 0.693 / doubling)
    grown = f"{VISITORS} * pow(2, least({tick}, {last}) / {doubling})"
    return f"CAST({grown} + greatest({tick} - {last}, 0) * {in_a_tick} AS BIGINT)"


def start_growing(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Each visitor once. Without a watermark none is ever forgotten."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", VISITS_PER_SECOND).load()
    first, beyond = f"IF(value = 0, 0, {known_visitors('value')})", known_visitors("(value + 1)")
    visitors = ticks.select(F.expr(f"explode(sequence({first}, {beyond} - 1))").alias("visitor"))
    return (
        visitors.dropDuplicates(["visitor"])
        .writeStream.queryName("visits_growing")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoints/visits_growing"))
        .trigger(processingTime="8 seconds")
        .start()
    )


def read_visits(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    files = spark.readStream.schema("page STRING, visited_at TIMESTAMP").option("maxFilesPerTrigger", 50)
    return files.json(str(folder / f"input/visits_{kind}")).withWatermark("visited_at", "10 seconds")


def start_waiting(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Visits on the web and in the app. The watermark is that of the slower one, however long it takes."""
    return (
        read_visits(spark, folder, "web")
        .union(read_visits(spark, folder, "app"))
        .groupBy(F.window("visited_at", "10 seconds"), "page")
        .count()
        .writeStream.queryName("visits_waiting")
        .format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoints/visits_waiting"))
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
        .trigger(processingTime="5 seconds")
        .start(str(folder / "output/payments"))
    )


STARTS = {
    "visits_growing": start_growing,
    "visits_waiting": start_waiting,
    "payments_poison": start_payments,
    "clicks_slow": start_clicks,
    "clicks_blocked": start_blocked,
}
#: Their source is in Python, and on a busy machine its first worker may come too late: then the query fails.
TRIES = {"clicks_slow": 3, "clicks_blocked": 3}


def begin(name: str, spark: SparkSession, folder: Path) -> StreamingQuery:
    """Start a query and wait for its first batch: five at once would only be slow together."""
    for _ in range(TRIES.get(name, 1)):
        query = STARTS[name](spark, folder)
        while query.isActive and query.lastProgress is None:
            time.sleep(0.2)
        if query.isActive:
            break
    return query


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(STARTS)
    spark = session()
    spark.sparkContext.setLogLevel("WARN")
    queries = {name: begin(name, spark, folder) for name in STARTS if name in wanted}
    if "clicks_slow" in queries:
        queries["clicks_slow"].awaitTermination()
    else:
        threading.Event().wait()  # without it: stay when a query dies, so that it can be started again


if __name__ == "__main__":
    main()
