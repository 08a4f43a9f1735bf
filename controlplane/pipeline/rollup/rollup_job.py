"""The rollup job: Spark rolls up the days that have changed, and each day is committed to the lake.

Called by `controlplane history rollup`. A day is recomputed when its raw rows, or those of the day before or
after it, have changed since.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit, LakeManifest, Part
from controlplane.lake.schema import arrow_schema
from controlplane.lake.staging import Staging
from controlplane.pipeline.rollup.buckets import BUCKET_SECONDS
from controlplane.pipeline.rollup.day_planning import (
    ONE_DAY,
    SOURCE_TABLES,
    RawDays,
    is_stale,
    split_portions,
)
from controlplane.pipeline.rollup.rollups import OBJECTIVE_SECONDS, RawTables, compute_rollups
from controlplane.pipeline.runtime import lake_frames

JOBS = tuple(BUCKET_SECONDS)
#: Raw rows per task.
ROWS_PER_TASK = 1_000_000
Stagings = Mapping[tuple[str, date], Staging]


@dataclass(frozen=True)
class RollupRequest:
    """Days to roll up. `since`, `until`: UTC days, inclusive; `objective`: seconds."""

    since: date | None = None
    until: date | None = None
    objective: float = OBJECTIVE_SECONDS
    force: bool = False


@dataclass(frozen=True)
class RollupSummary:
    """Days rolled up, number of unchanged days, and rows written by table."""

    days: tuple[date, ...]
    unchanged: int
    rows: Mapping[str, int]


def refresh_rollups(
    lake: Lake, spark: Callable[[], SparkSession], request: RollupRequest, log: Callable[[str], None]
) -> RollupSummary:
    """Update the rollups. `spark` is called only where there is work."""
    with lake.folder.lock("rollup"):
        for job in JOBS:
            lake.recover(job)
        manifest = lake.manifest()
        days = RawDays.of(manifest)
        known = days.known(request.since, request.until)
        stale = [
            day
            for day in known
            if request.force or is_stale(manifest, JOBS, day, days.facts(day, request.objective))
        ]
        for day in days.beyond():
            log(f"{day} is skipped: its date is out of range, so a clock was wrong")
        rows = dict.fromkeys(JOBS, 0)
        for place, portion in enumerate(found := list(split_portions(days, stale))):
            name = " to ".join(sorted({str(portion[0]), str(portion[-1])}))
            session = spark()
            log(f"{place + 1} of {len(found)}: {name}, {days.rows(portion):,} rows of raw tables")
            for commit in _roll_up_portion(lake, session, manifest, days, portion, request.objective):
                rows[commit.job] += commit.rows
        return RollupSummary(tuple(stale), len(known) - len(stale), rows)


def _roll_up_portion(
    lake: Lake,
    spark: SparkSession,
    manifest: LakeManifest,
    days: RawDays,
    portion: Sequence[date],
    objective: float,
) -> Iterator[Commit]:
    stagings = {(job, day): lake.stage(job, day.isoformat()) for day in portion for job in JOBS}
    raw = _raw_tables(lake, spark, manifest, portion)
    tasks = max(1, math.ceil(days.rows(portion) / ROWS_PER_TASK))
    parts: dict[tuple[str, date], list[Part]] = defaultdict(list)
    for part in lake_frames.write_partitions(
        compute_rollups(raw, portion, objective, tasks), _part_writer(stagings)
    ):
        parts[part.table, part.date].append(part)
    for (job, day), staging in stagings.items():
        yield lake.commit(staging, parts[job, day], days.facts(day, objective))


def _raw_tables(lake: Lake, spark: SparkSession, manifest: LakeManifest, days: Sequence[date]) -> RawTables:
    first, last = days[0] - ONE_DAY, days[-1] + ONE_DAY
    return RawTables(
        *(lake_frames.read_table(lake, spark, manifest, table, first, last) for table in SOURCE_TABLES)
    )


def _part_writer(stagings: Stagings) -> lake_frames.PartWriter:
    return lambda rows, name: _write_parts(stagings, rows, name)


def _write_parts(stagings: Stagings, rows: pa.Table, name: str) -> Iterator[Part]:
    """Write a file per table and day."""
    for job, width in BUCKET_SECONDS.items():
        own = (
            rows.filter(pc.equal(rows["width"], width))
            .select(list(arrow_schema(job).names))
            .cast(arrow_schema(job))
        )
        days = pc.cast(pc.floor_temporal(own["bucket_at"], unit="day"), pa.date32())
        for day in sorted(pc.unique(days).to_pylist()):
            yield from stagings[job, day].write(job, own.filter(pc.equal(days, day)), name)
