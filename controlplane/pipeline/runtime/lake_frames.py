"""Read tables of the lake as DataFrames, and write DataFrames as parts of the lake on the executors.

Called by the jobs that derive tables from tables. No row passes through the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import date
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part, checked_path
from controlplane.lake.schema import spark_ddl

#: Writes a task's rows as parts under a given name.
PartWriter = Callable[[pa.Table, str], Iterable[Part]]


def read_table(
    lake: Lake,
    spark: SparkSession,
    manifest: LakeManifest,
    table: str,
    first: date | None = None,
    last: date | None = None,
) -> DataFrame:
    """A table of the lake by the manifest; columns that older files lack are null."""
    paths = [f"{lake.folder.spark_url}/{part.path}" for part in manifest.parts(table, first, last)]
    if not paths:
        return spark.createDataFrame([], spark_ddl(table))
    return spark.read.schema(spark_ddl(table)).parquet(*paths)


def write_partitions(rows: DataFrame, write: PartWriter) -> list[Part]:
    """Write each partition and return the parts of all."""

    def whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            parts = write(pa.Table.from_batches(held), _part_name())
            documents = [json.dumps(asdict(part), default=str) for part in parts]
            yield pa.record_batch([pa.array(documents, pa.string())], names=["part"])

    return [_part(json.loads(row.part)) for row in rows.mapInArrow(whole, "part string").collect()]


def _part_name() -> str:
    context = TaskContext.get()
    return f"{context.partitionId() if context else 0:05d}"


def _part(document: dict[str, Any]) -> Part:
    day = date.fromisoformat(document["date"])
    return Part(document["table"], day, checked_path(document["path"]), document["rows"], document["bytes"])
