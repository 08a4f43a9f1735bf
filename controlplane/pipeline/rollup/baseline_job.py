"""The baseline job: compute baselines from the lake's hourly rollups and replace the previous ones.

Called by `controlplane history rollup`, after the rollups. Unchanged rollups are not processed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.schema import arrow_schema
from controlplane.lake.staging import Staging
from controlplane.pipeline.rollup.baselines import WEEKS, compute_baselines
from controlplane.pipeline.rollup.day_planning import ONE_DAY
from controlplane.pipeline.runtime import lake_frames

JOB, BATCH, TABLE, HOURS = "baselines", "current", "baselines", "rollup_1h"
#: Increases when the computation changes.
ALGORITHM_VERSION = 1


@dataclass(frozen=True)
class BaselineResult:
    """Values in the lake now, and whether they are new."""

    values: int
    changed: bool


def refresh_baselines(
    lake: Lake,
    spark: Callable[[], SparkSession],
    now: float,
    weeks: int = WEEKS,
    force: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> BaselineResult:
    """Compute baselines from the `weeks` weeks up to the newest rolled-up day. `now`: Unix seconds.

    Days in the future are ignored: a clock was wrong, and the baselines would be computed from weeks without
    data.
    """
    with lake.folder.lock(JOB):
        lake.recover(JOB)
        manifest = lake.manifest()
        made_at = datetime.fromtimestamp(now, UTC)
        days = [day for day in manifest.dates(HOURS) if day <= made_at.date()]
        if not days:
            return BaselineResult(0, False)
        end = days[-1] + ONE_DAY
        facts, before = _facts(manifest, end, weeks), manifest.get(JOB, BATCH)
        if before is not None and before.facts == facts and not force:
            return BaselineResult(before.rows, False)
        staging = lake.stage(JOB, BATCH)
        session = spark()
        log(f"computing baselines of {weeks} weeks")
        hours = lake_frames.read_table(
            lake, session, manifest, HOURS, end - timedelta(weeks=weeks), end - ONE_DAY
        )
        rows = compute_baselines(hours, end, made_at, weeks)
        parts = lake_frames.write_partitions(
            rows.coalesce(_files(manifest, end, weeks)), _part_writer(staging)
        )
        return BaselineResult(lake.commit(staging, parts, facts).rows, True)


def _facts(manifest: LakeManifest, end: date, weeks: int) -> dict[str, Any]:
    """The inputs of the baselines: days, and when each was rolled up."""
    first = end - timedelta(weeks=weeks)
    made = {
        part.date.isoformat(): commit.at
        for part, commit in manifest.live_parts.values()
        if part.table == HOURS and first <= part.date < end and commit.job == HOURS
    }
    return {"days": dict(sorted(made.items())), "weeks": weeks, "making": ALGORITHM_VERSION}


def _files(manifest: LakeManifest, end: date, weeks: int) -> int:
    """One file per million hours."""
    parts = manifest.parts(HOURS, end - timedelta(weeks=weeks), end - ONE_DAY)
    return 1 + sum(part.rows for part in parts) // 1_000_000


def _part_writer(staging: Staging) -> lake_frames.PartWriter:
    def write(rows: pa.Table, name: str) -> list[Part]:
        return staging.write(TABLE, rows.cast(arrow_schema(TABLE)), name)

    return write
