"""Writes an archive of the Java classes that Spark loads, which halves the start of each Spark in the tests.

    python -m tests.class_archive FILE

A Spark that starts, writes files and runs a stateful query loads 15 000 classes: parsing and verifying them is half
of its 14 s of CPU. The JVM reads them from FILE instead (class data sharing) if JVM and jars are those that wrote it,
and otherwise ignores FILE. `make test` and `make test-long` keep it in `.venv`; `tests/conftest.py` uses it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVE = ROOT / ".venv" / "spark-classes.jsa"
#: C1 alone: a test's JVM lives for a minute and runs nearly all its code once. The optimizing compiler costs more
#: than it saves (41 % of the CPU time of the rollup tests), and so do collectors with threads of their own.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def jvm_options() -> str:
    """Options of the tests' JVMs. Logging is off because a JVM warns on stdout of an archive that does not fit."""
    return f"{QUICK_JVM} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else QUICK_JVM


def write(archive: Path) -> None:
    """Run what most tests run, in a JVM that writes the classes it loaded to `archive` when it ends."""
    unfinished = archive.with_suffix(".unfinished")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK_JVM} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        _write_and_aggregate(session, folder)
        for provider in ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"):
            session.conf.set(
                "spark.sql.streaming.stateStore.providerClass",
                f"org.apache.spark.sql.execution.streaming.state.{provider}",
            )
            _count_stateful(session, f"{folder}/{provider}")
    session.stop()
    jvm: Any = SparkContext._gateway.proc  # type: ignore[union-attr]
    jvm.stdin.close()
    jvm.wait(timeout=120)
    unfinished.rename(archive)


def _write_and_aggregate(session: SparkSession, folder: str) -> None:
    rows = session.range(100).selectExpr(
        "id", "id % 7 as k", "cast(id as string) as text", "current_timestamp() as at"
    )
    for kind in ("parquet", "json"):
        rows.write.format(kind).partitionBy("k").save(f"{folder}/{kind}")
        read = session.read.schema(rows.schema).format(kind).load(f"{folder}/{kind}")
        read.join(rows.select("id"), "id").groupBy("k").agg({"id": "max", "text": "count"}).orderBy(
            "k"
        ).collect()
    session.sql(
        "select k, row_number() over (partition by k order by id) from values (1, 2), (1, 3) t(k, id)"
    ).collect()


def _count_stateful(session: SparkSession, folder: str) -> None:
    def look(batch: DataFrame, number: int) -> None:
        batch.count()

    lines = session.readStream.schema("id long, text string, at timestamp").json(f"{folder}/../json")
    counted = lines.withWatermark("at", "1 minute").dropDuplicates(["id", "at"]).groupBy("text").count()
    writers = [
        counted.writeStream.outputMode("update").foreachBatch(look),
        lines.writeStream.format("parquet").option("path", f"{folder}/out"),
    ]
    for number, writer in enumerate(writers):
        writer.option("checkpointLocation", f"{folder}/{number}").trigger(
            availableNow=True
        ).start().awaitTermination()


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
