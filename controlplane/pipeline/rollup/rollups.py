"""Rollups: aggregate the raw tables of the lake per query and bucket, for all widths at once. DataFrames in,
DataFrame out.

Called by `controlplane.pipeline.rollup.rollup_job`. One shuffle brings all rows of a query and day together,
where `controlplane.pipeline.rollup.buckets` computes its buckets; quantiles are exact. Duplicate rows count
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from controlplane.pipeline.rollup import buckets
from controlplane.pipeline.rollup.buckets import (
    ACTIVITY,
    DAY_MICROS,
    EVENT,
    MICROS_PER_SECOND,
    REPORT,
    SOURCE,
)

OBJECTIVE_SECONDS = 300.0
#: Reports from this long before a day give the arrival rate at its start.
RATE_WINDOW_MICROS = 3600 * MICROS_PER_SECOND
EPOCH = date(1970, 1, 1)
RUN_EVENTS = ("started", "idle", "terminated")
COUNTED_EVENTS = ("started", "terminated", "start_failed")


@dataclass(frozen=True)
class RawTables:
    """Raw tables by the lake's schema, of the requested days and their neighbors."""

    progress: DataFrame
    sources: DataFrame
    lifecycle: DataFrame


def compute_rollups(
    raw: RawTables, days: Sequence[date], objective: float = OBJECTIVE_SECONDS, partitions: int | None = None
) -> DataFrame:
    """Rows of the tables `rollup_*`, with an additional column `width` in seconds.

    `days`: UTC; `objective`: seconds within which a batch meets it; `partitions`: of the shuffle (None:
    Spark's default).
    """
    numbers = [(day - EPOCH).days for day in days]
    rows = _bucket_input(raw, numbers)
    spread = rows.repartition(partitions, "day", "query_id") if partitions else rows
    rolled_up = spread.groupBy("day", "query_id").applyInArrow(
        _bucket_function(objective), _ddl(buckets.OUTPUT)
    )
    return rolled_up.withColumn("bucket_at", F.timestamp_micros("bucket_at"))


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _bucket_function(objective: float) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def of_group(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        day, query_id = (item.as_py() for item in key)
        return buckets.bucket_table(day, query_id, rows, objective)

    return of_group


def _bucket_input(raw: RawTables, days: Sequence[int]) -> DataFrame:
    """The four kinds of rows of `buckets.INPUT`, each with the day that it counts for."""
    reports = _reports(_near_days(raw.progress, "trigger_at", days))
    sources = _sources(_near_days(raw.sources, "trigger_at", days))
    kinds: Iterable[tuple[int, DataFrame]] = (
        (REPORT, _with_previous_hour(reports, days)),
        (SOURCE, _with_previous_hour(sources, days)),
        (ACTIVITY, _with_adjacent_days(_run_activity(raw, days), days)),
        (EVENT, _with_adjacent_days(_events(_near_days(raw.lifecycle, "reported_at", days)), days)),
    )
    found = [_conform(rows.withColumn("kind", F.lit(kind))) for kind, rows in kinds]
    union = found[0]
    for item in found[1:]:
        union = union.unionByName(item)
    return union


def _conform(rows: DataFrame) -> DataFrame:
    present = set(rows.columns)
    return rows.select(
        *(
            (F.col(name) if name in present else F.lit(None)).cast(kind).alias(name)
            for name, kind in buckets.INPUT.items()
        )
    )


def _near_days(rows: DataFrame, time: str, days: Sequence[int]) -> DataFrame:
    """Rows of the days and their neighbors: files of other days are not opened."""
    first, last = EPOCH + timedelta(min(days) - 1), EPOCH + timedelta(max(days) + 2)
    begin, end = (datetime(item.year, item.month, item.day, tzinfo=UTC) for item in (first, last))
    return rows.where(
        (F.col(time) >= F.lit(begin)) & (F.col(time) < F.lit(end)) & F.col("query_id").isNotNull()
    )


def _batch_key() -> list[Column]:
    return [
        F.col("query_id"),
        F.xxhash64("run_id").alias("run"),
        F.col("batch_id"),
        F.unix_micros("trigger_at").alias("at"),
    ]


def _reports(progress: DataFrame) -> DataFrame:
    same = (
        "duration_ms input_rows output_rows dropped_rows lag_rows state_rows state_bytes input_rows_per_second "
        "processed_rows_per_second"
    ).split()
    # Of duplicates, the agent's row takes precedence over the event log's.
    rank = F.when(F.col("origin") == "agent", 0).otherwise(1).alias("source")
    return progress.select(*_batch_key(), *same, F.unix_micros("watermark").alias("watermark"), rank)


def _sources(sources: DataFrame) -> DataFrame:
    """Latest offset and backlog of each source, in its own unit: the backlog's age needs no rows."""
    offsets = F.col("latest_total") - F.col("end_total")
    known = F.when(offsets > 0, offsets).when(offsets <= 0, 0.0)  # `greatest` would turn null into 0
    lag = F.coalesce(F.col("lag_rows"), known).alias("lag")
    return sources.select(*_batch_key(), "source", lag, F.col("latest_total").alias("head"))


def _with_previous_hour(rows: DataFrame, days: Sequence[int]) -> DataFrame:
    """Rows with their own day; those of the last hour before a day with that day, too."""
    own = F.floor(F.col("at") / DAY_MICROS).cast("int")
    next_day = F.floor((F.col("at") + RATE_WINDOW_MICROS) / DAY_MICROS).cast("int")
    under = rows.withColumn("day", F.explode(F.array_distinct(F.array(own, next_day))))
    return under.where(F.col("day").isin(list(days)))


def _run_activity(raw: RawTables, days: Sequence[int]) -> DataFrame:
    """First and last event of each run on each day."""
    ends = F.unix_micros("trigger_at") + F.coalesce(F.col("duration_ms"), F.lit(0)) * 1000
    reports = _near_days(raw.progress, "trigger_at", days).select(
        "query_id", "run_id", "app", "name", F.unix_micros("trigger_at").alias("at"), ends.alias("until")
    )
    at = F.unix_micros("reported_at")
    events = (
        _near_days(raw.lifecycle, "reported_at", days)
        .where(F.col("event").isin(*RUN_EVENTS) & F.col("run_id").isNotNull())
        .select("query_id", "run_id", "app", "name", at.alias("at"), at.alias("until"))
    )
    signs = reports.unionByName(events).withColumn("day", F.floor(F.col("at") / DAY_MICROS).cast("int"))
    found = signs.groupBy("day", "query_id", "run_id", "app", "name").agg(
        F.min("at").alias("at"), F.max("until").alias("until")
    )
    return found.withColumn("run", F.xxhash64("run_id"))


def _events(lifecycle: DataFrame) -> DataFrame:
    """Starts, terminations and failed starts; failures have a `!` appended."""
    failed = (
        (F.col("event") == "start_failed") | F.col("exception").isNotNull() | F.col("error_class").isNotNull()
    )
    at = F.unix_micros("reported_at")
    return lifecycle.where(F.col("event").isin(*COUNTED_EVENTS)).select(
        "query_id",
        F.xxhash64("run_id").alias("run"),
        "app",
        "name",
        F.floor(at / DAY_MICROS).cast("int").alias("day"),
        at.alias("at"),
        at.alias("until"),
        F.when(failed, F.concat("event", F.lit("!"))).otherwise(F.col("event")).alias("event"),
    )


def _with_adjacent_days(rows: DataFrame, days: Sequence[int]) -> DataFrame:
    """Rows with their day and with its neighbors."""
    day = F.col("day")
    under = rows.withColumn("day", F.explode(F.array(day - 1, day, day + 1)))
    return under.where(F.col("day").isin(list(days)))
