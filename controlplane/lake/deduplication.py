"""What the lake holds already of rows about to be written: no batch is in it twice, whichever way it came.

Called by every job that writes raw tables, before it stages its rows. Reads only the key columns, of the days and runs
concerned, of other commits than the one being made. What others commit meanwhile is looked at once more by the commit
itself (`conflict_check`), so two jobs that bring the same rows at the same time do not both put them there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from controlplane.errors import LakeError
from controlplane.lake.lake import MAX_READ_ATTEMPTS, READ_RETRY_SECONDS, Lake
from controlplane.lake.manifest import Commit, LakeManifest, Part
from controlplane.lake.schema import LIFECYCLE, PROGRESS, SOURCES, STATE_OPERATORS, TABLES
from controlplane.lake.staging import Staging

REPORT_TABLES = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name)
REPORT_KEY = ("run_id", "batch_id", "trigger_at")
LIFECYCLE_KEY = ("run_id", "event", "reported_at")
#: A run has one of each, so two that differ in time are the same, heard by two.
ONCE_PER_RUN = ("started", "terminated")
#: An agent's clock and a log's need not agree: what a run has once is looked for on the days beside, too.
MAX_CLOCK_SKEW = timedelta(days=1)
#: More runs than this are not named to the reader of Parquet, which would test each row against each of them.
MAX_FILTERED_RUNS = 1000


class CommitConflict(LakeError):
    """Another job committed rows of ours while we made them: done again, they are left out."""


def drop_stored_rows(
    lake: Lake, tables: dict[str, pa.Table], but: tuple[str, str], manifest: LakeManifest | None = None
) -> tuple[dict[str, pa.Table], int]:
    """The rows that no other commit than `but` (job, batch) holds, and how many rows of progress were left out.

    `manifest`: what the lake holds, where the caller has read it for many calls. LakeError where a file that it names
    is missing for good.
    """
    manifest = manifest or lake.manifest()
    for _ in range(MAX_READ_ATTEMPTS - 1):
        try:
            return _new_only(lake, tables, but, manifest)
        except FileNotFoundError:  # replaced since: the next manifest says by what
            time.sleep(READ_RETRY_SECONDS)
            manifest = lake.manifest()
    try:
        return _new_only(lake, tables, but, manifest)
    except FileNotFoundError as error:
        raise LakeError(f"a file that the manifest of {lake.folder} names is missing: {error}") from None


def conflict_check(
    lake: Lake, staging: Staging, parts: Iterable[Part], asked: LakeManifest
) -> Callable[[LakeManifest], None]:
    """For `Lake.commit`: raises Overtaken where the lake got any of these rows after `asked` was read."""
    told = [part for part in parts if part.table in (PROGRESS.name, LIFECYCLE.name)]

    def check(held: LakeManifest) -> None:
        news = LakeManifest({key: one for key, one in held.commits.items() if _is_new(one, asked)})
        if not news.commits.keys() - {(staging.job, staging.batch)}:
            return
        for part in told:
            columns = LIFECYCLE_KEY if part.table == LIFECYCLE.name else REPORT_KEY
            data = ds.dataset(
                lake.folder.absolute(staging.path, part.path), format="parquet", filesystem=lake.folder.fs
            )
            rows = data.to_table(columns=list(columns))
            kept, _ = _new_only(lake, {part.table: rows}, (staging.job, staging.batch), news)
            if kept[part.table].num_rows < rows.num_rows:
                raise CommitConflict(
                    f"another job brought rows of {staging.job}/{staging.batch} at the same time: run the job "
                    "again, nothing was lost"
                )

    return check


def _is_new(commit: Commit, asked: LakeManifest) -> bool:
    before = asked.commits.get(commit.key)
    return before is None or before.at != commit.at


def _new_only(
    lake: Lake, tables: dict[str, pa.Table], but: tuple[str, str], manifest: LakeManifest
) -> tuple[dict[str, pa.Table], int]:
    kept, left_out = dict(tables), 0
    for name, rows in tables.items():
        if name not in (*REPORT_TABLES, LIFECYCLE.name) or not rows.num_rows:
            continue
        lifecycle = name == LIFECYCLE.name
        held = _held(lake, manifest, name, rows, but, LIFECYCLE_KEY if lifecycle else REPORT_KEY)
        if not held.num_rows:
            continue
        known = set(_life_keys(held) if lifecycle else _report_keys(held))
        keys = _life_keys(rows) if lifecycle else _report_keys(rows)
        kept[name] = rows.filter(pa.array([key not in known for key in keys], pa.bool_()))
        if name == PROGRESS.name:
            left_out = rows.num_rows - kept[name].num_rows
    return kept, left_out


def _held(
    lake: Lake, manifest: LakeManifest, name: str, rows: pa.Table, but: tuple[str, str], key: tuple[str, ...]
) -> pa.Table:
    """The keys that the lake holds of these runs, on these days."""
    parts = list(_parts(manifest, name, rows[TABLES[name].partition_column], but, name == LIFECYCLE.name))
    schema = pa.schema([(column, rows.schema.field(column).type) for column in key])
    if not parts:
        return schema.empty_table()
    paths = [lake.folder.absolute(path) for path in parts]
    runs = pc.unique(rows["run_id"]).drop_null()
    data = ds.dataset(paths, schema=schema, format="parquet", filesystem=lake.folder.fs)
    wanted = pc.field("run_id").isin(runs) if 0 < len(runs) <= MAX_FILTERED_RUNS else None
    if wanted is not None and rows["run_id"].null_count:
        wanted = wanted | pc.field("run_id").is_null()
    return data.to_table(columns=list(key), filter=wanted)


def _parts(
    manifest: LakeManifest, name: str, moments: pa.ChunkedArray, but: tuple[str, str], beside: bool
) -> Iterator[str]:
    days = set(_days(moments))
    if beside:
        days |= {day + MAX_CLOCK_SKEW for day in days if day < date.max} | {
            day - MAX_CLOCK_SKEW for day in days if day > date.min
        }
    if not days:
        return
    for part in manifest.parts(name, min(days), max(days)):
        if part.date in days and manifest.live_parts[part.path][1].key != but:
            yield part.path


def _days(moments: pa.ChunkedArray) -> Iterable[date]:
    days: list[date] = pc.unique(pc.cast(pc.floor_temporal(moments, unit="day"), pa.date32())).to_pylist()
    return (day for day in days if day is not None)


def _report_keys(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(
        rows["run_id"].to_pylist(),
        rows["batch_id"].to_pylist(),
        rows["trigger_at"].cast(pa.int64()).to_pylist(),
        strict=True,
    )


def _life_keys(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    told = zip(
        rows["run_id"].to_pylist(),
        rows["event"].to_pylist(),
        rows["reported_at"].cast(pa.int64()).to_pylist(),
        strict=True,
    )
    return ((run, event, None if event in ONCE_PER_RUN and run else at) for run, event, at in told)
