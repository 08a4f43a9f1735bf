"""Real queries whose checkpoints are then broken or looked at: what each reads, computes, writes and keeps state in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

STORE = "spark.sql.streaming.stateStore."
HDFS: dict[str, str] = {}
ROCKSDB = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
CHANGELOG = {**ROCKSDB, f"{STORE}rocksdb.changelogCheckpointing.enabled": "true"}
IDS = {**CHANGELOG, f"{STORE}checkpointFormatVersion": "2"}
PROVIDERS: Mapping[str, dict[str, str]] = {
    "hdfs": HDFS,
    "rocksdb": ROCKSDB,
    "changelog": CHANGELOG,
    "ids": IDS,
}
SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"


class Inputs:
    """Two folders that file sources read; each `feed` adds one file to both."""

    def __init__(self, spark: Any, directory: Path):
        self.spark, self.directory, self.files = spark, directory, 0
        for name in ("a", "b"):
            (directory / name).mkdir(parents=True)

    def feed(self, count: int = 1) -> None:
        for _ in range(count):
            number, self.files = self.files, self.files + 1
            rows = [
                {"k": f"k{n % 5}", "v": number * 10 + n, "ts": f"2026-01-01T{number:02d}:00:{n:02d}Z"}
                for n in range(10)
            ]
            for name in ("a", "b"):
                hidden = self.directory / name / f".{number:03d}.json"
                hidden.write_text("\n".join(map(json.dumps, rows)))
                hidden.rename(self.directory / name / f"{number:03d}.json")

    def read(self, name: str = "a", **options: str) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).options(maxFilesPerTrigger="1", **options)
        return reader.json(str(self.directory / name))

    def late(self, name: str = "a") -> Any:
        return self.read(name).withWatermark("ts", "30 minutes").alias(name)


@dataclass(frozen=True)
class Golden:
    """`sink`: `collect` keeps the rows of each batch by foreachBatch; `files` writes Parquet; or a format."""

    name: str
    build: Callable[[Inputs], Any]
    mode: str = "append"
    sink: str = "collect"
    conf: Mapping[str, str] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Spark waits ten seconds at most for the Python worker of such a query, which a busy machine exceeds."""
        return [pytest.mark.alone] if self.build is transformed else []


@dataclass
class Ran:
    """What became of a run: the failure's text, the rows of each batch (of `collect`)."""

    error: str | None
    batches: dict[int, list[tuple[Any, ...]]]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    @property
    def last(self) -> list[tuple[Any, ...]]:
        return self.batches[max(self.batches)] if self.batches else []


@contextmanager
def configured(spark: Any, conf: Mapping[str, str]) -> Iterator[None]:
    """Settings for a while; the session is shared, and what was not set before is not set afterwards."""
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def run(inputs: Inputs, golden: Golden, checkpoint: Path, output: Path) -> Ran:
    """Start the query on that checkpoint and let it read what there is."""
    from listeners.spark import causes

    batches: dict[int, list[tuple[Any, ...]]] = {}
    lock = threading.Lock()

    def collect(rows: Any, number: int) -> None:
        found = sorted(tuple(row) for row in rows.collect())
        with lock:
            batches[number] = found

    with configured(inputs.spark, golden.conf):
        writer = golden.build(inputs).writeStream.outputMode(golden.mode).trigger(**golden.trigger)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if golden.sink == "collect":
            writer = writer.foreachBatch(collect)
        elif golden.sink == "files":
            writer = writer.format("parquet").option("path", str(output))
        else:
            writer = writer.format(golden.sink)
        query = None
        try:
            query = writer.start()
            query.awaitTermination() if "availableNow" in golden.trigger else query.processAllAvailable()
            return Ran(None, batches)
        except Exception as failure:
            return Ran(causes.text_of(failure), batches)
        finally:
            if query is not None:
                query.stop()


# -- what they compute -----------------------------------------------------------------------------


def display_root(inputs: Inputs) -> Any:
    return inputs.read()


def counted(inputs: Inputs) -> Any:
    from pyspark.sql import functions as F

    return inputs.read().groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def keyless(inputs: Inputs) -> Any:
    return inputs.read().groupBy().count()


def windowed(inputs: Inputs) -> Any:
    from pyspark.sql import functions as F

    return inputs.late().groupBy(F.window("ts", "30 minutes"), "k").count()


def sessions(inputs: Inputs) -> Any:
    from pyspark.sql import functions as F

    return inputs.late().groupBy(F.session_window("ts", "5 minutes"), "k").count()


def distinct(inputs: Inputs) -> Any:
    return inputs.late().dropDuplicates(["k", "v"])


def distinct_within(inputs: Inputs) -> Any:
    return inputs.late().dropDuplicatesWithinWatermark(["k"])


def joined(inputs: Inputs, how: str = "inner") -> Any:
    from pyspark.sql import functions as F

    near = "a.k = b.k AND a.v = b.v AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 minute"
    return inputs.late("a").join(inputs.late("b"), F.expr(near), how).select("a.k", "a.v", "b.ts")


def outer(inputs: Inputs) -> Any:
    return joined(inputs, "left_outer")


def united(inputs: Inputs) -> Any:
    return inputs.read("a").union(inputs.read("b"))


def stateful_function(inputs: Inputs) -> Any:
    def count(key: Any, parts: Iterator[Any], held: Any) -> Iterator[Any]:
        import pandas as pd

        seen = (held.get[0] if held.exists else 0) + sum(len(part) for part in parts)
        held.update((seen,))
        yield pd.DataFrame({"k": [key[0]], "n": [seen]})

    grouped = inputs.read().groupBy("k")
    return grouped.applyInPandasWithState(count, "k STRING, n BIGINT", "n BIGINT", "update", "NoTimeout")


def transformed(inputs: Inputs) -> Any:
    """transformWithState with a value variable; RocksDB only."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._seen = handle.getValueState("seen", "n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timer: Any) -> Iterator[Any]:
            seen = (self._seen.get()[0] if self._seen.exists() else 0) + sum(len(part) for part in rows)
            self._seen.update((seen,))
            yield pd.DataFrame({"k": [key[0]], "n": [seen]})

    grouped = inputs.read().groupBy("k")
    return grouped.transformWithStateInPandas(Count(), "k STRING, n BIGINT", "Update", "None")


def from_rate(inputs: Inputs) -> Any:
    return inputs.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()


def from_clock(inputs: Inputs) -> Any:
    return inputs.spark.readStream.format("rate").option("rowsPerSecond", 50).load()
