"""A plain PySpark program with four queries that break, each in a way of its own, side by side in one driver.

`invoices_crashing` is started again by its program after each failure; `balances_damaged` lost state files
while it was down; `refunds_vanished` ends and no event reports it; `statements_late` takes longer for a
batch than it has. Usage: billing.py FOLDER [QUERY…]. The program itself lives on through all of it.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

#: Seconds between a crash of `invoices_crashing` and its next start.
PAUSE = 6.0
#: Nothing listens on the discard port, on any machine that we know.
MAIL_SERVER = ("127.0.0.1", 9)


def session() -> SparkSession:
    return (
        SparkSession.builder.appName("demo-billing")
        .master("local[2]")
        .config("spark.driver.memory", "768m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def read_rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 10).load()


def beside(act: Callable[[], None]) -> None:
    """On a thread of its own, so that no query waits for another's trouble."""
    threading.Thread(target=act, daemon=True).start()


def wait_for_batch(query: StreamingQuery, number: int) -> None:
    while query.isActive and ((last := query.lastProgress) is None or last["batchId"] < number):
        time.sleep(0.5)


# -- a crash loop --------------------------------------------------------------------------------------


def send(invoices: DataFrame, batch: int) -> None:
    with socket.create_connection(MAIL_SERVER, timeout=5) as server:
        server.sendall(str(invoices.count()).encode())


def start_invoices(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_rows(spark)
        .writeStream.queryName("invoices_crashing")
        .foreachBatch(send)
        .option("checkpointLocation", str(folder / "checkpoints/invoices_crashing"))
        .start()
    )


def keep_invoices_going(spark: SparkSession, folder: Path) -> None:
    """What many programs do: wait for the end, whatever it is, and start again."""

    def loop() -> None:
        while True:
            try:
                start_invoices(spark, folder).awaitTermination()
            except StreamingQueryException:
                print(f"invoices: no mail server; next start in {PAUSE:.0f} s", flush=True)
            time.sleep(PAUSE)

    beside(loop)


# -- a damaged checkpoint ------------------------------------------------------------------------------


def start_balances(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_rows(spark)
        .groupBy((F.col("value") % 50).alias("account"))
        .count()
        .writeStream.queryName("balances_damaged")
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoints/balances_damaged"))
        .trigger(processingTime="4 seconds")
        .start()
    )


def free_disk(folder: Path) -> None:
    """A clean-up that takes state files for left-overs."""
    state = folder / "checkpoints/balances_damaged/state/0/0"
    for file in (*state.glob("*.delta"), *state.glob("*.snapshot")):
        file.unlink()


def damage_balances(spark: SparkSession, folder: Path) -> None:
    """Down for maintenance after a few batches; while it is down the disk is cleaned."""
    query = start_balances(spark, folder)

    def maintain() -> None:
        wait_for_batch(query, 3)
        query.stop()
        free_disk(folder)
        start_balances(spark, folder)

    beside(maintain)


# -- a query that is gone ------------------------------------------------------------------------------


def start_refunds(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        read_rows(spark)
        .writeStream.queryName("refunds_vanished")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoints/refunds_vanished"))
        .trigger(processingTime="4 seconds")
        .start()
    )


def let_refunds_vanish(spark: SparkSession, folder: Path) -> None:
    """A query in its own session, whose listeners are removed for a moment when it ends."""
    own = spark.newSession()
    query = start_refunds(own, folder)

    def vanish() -> None:
        wait_for_batch(query, 5)
        manager = own._jsparkSession.streams()
        listening = list(manager.listListeners())
        for listener in listening:
            manager.removeListener(listener)
        query._jsq.stop()  # past PySpark, as a library in the JVM does
        time.sleep(5)  # the event of its end comes from another thread and must find no listener
        for listener in listening:
            manager.addListener(listener)

    beside(vanish)


# -- an overrun ----------------------------------------------------------------------------------------


def start_statements(spark: SparkSession, folder: Path) -> None:
    """Each batch waits four seconds for a printer, and has three."""

    def print_out(statements: DataFrame, batch: int) -> None:
        statements.count()
        time.sleep(4)

    (
        read_rows(spark)
        .writeStream.queryName("statements_late")
        .foreachBatch(print_out)
        .option("checkpointLocation", str(folder / "checkpoints/statements_late"))
        .trigger(processingTime="3 seconds")
        .start()
    )


STARTS = {
    "invoices_crashing": keep_invoices_going,
    "balances_damaged": damage_balances,
    "refunds_vanished": let_refunds_vanish,
    "statements_late": start_statements,
}


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(STARTS)
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    for name in wanted:
        STARTS[name](spark, folder)
    threading.Event().wait()


if __name__ == "__main__":
    main()
