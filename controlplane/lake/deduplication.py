"""Leave out rows that the lake already holds, whichever job brought them.

Called by every job that writes raw tables, before it stages its rows. Only the key columns are read, of the
days and runs concerned, from other commits than the one in progress. `conflict_check` repeats the comparison
inside the commit, so that two jobs that bring the same rows at the same time do not both store them.
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
#: Events that occur once per run: two of them with different times are the same event, reported twice.
ONCE_PER_RUN = ("started", "terminated")
#: The clocks of an agent and of an event log may differ: once-per-run events are also searched on the
#: adjacent days.
MAX_CLOCK_SKEW = timedelta(days=1)
#: Above this number of runs the Parquet filter does not name them, since it tests every row against each of
#: them.
MAX_FILTERED_RUNS = 1000


class CommitConflict(LakeError):
    """Another job committed some of these rows meanwhile. A retry leaves them out."""


def drop_stored_rows(
    lake: Lake, tables: dict[str, pa.Table], exclude: tuple[str, str], manifest: LakeManifest | None = None
) -> tuple[dict[str, pa.Table], int]:
    """Return the rows that no commit other than `exclude` (job, batch) holds, and the number of progress rows
    dropped.

    `manifest` is the lake's manifest where the caller has read it already. LakeError where a file that it
    names is missing for good.
    """
    manifest = manifest or lake.manifest()
    for _ in range(MAX_READ_ATTEMPTS - 1):
        try:
            return _new_only(lake, tables, exclude, manifest)
        except FileNotFoundError:  # the file was replaced; the next manifest names its successor
            time.sleep(READ_RETRY_SECONDS)
            manifest = lake.manifest()
    try:
        return _new_only(lake, tables, exclude, manifest)
    except FileNotFoundError as error:
        raise LakeError(f"a file that the manifest of {lake.folder} names is missing: {error}") from None


def conflict_check(
    lake: Lake, staging: Staging, parts: Iterable[Part], seen_manifest: LakeManifest
) -> Callable[[LakeManifest], None]:
    """A check for `Lake.commit` that raises CommitConflict if the lake gained any of these rows after
    `seen_manifest` was read.
    """
    key_parts = [part for part in parts if part.table in (PROGRESS.name, LIFECYCLE.name)]

    def check(held: LakeManifest) -> None:
        new_manifest = LakeManifest(
            {key: commit for key, commit in held.commits.items() if _is_new(commit, seen_manifest)}
        )
        if not new_manifest.commits.keys() - {(staging.job, staging.batch)}:
            return
        for part in key_parts:
            columns = LIFECYCLE_KEY if part.table == LIFECYCLE.name else REPORT_KEY
            data = ds.dataset(
                lake.folder.absolute(staging.path, part.path), format="parquet", filesystem=lake.folder.fs
            )
            rows = data.to_table(columns=list(columns))
            kept, _ = _new_only(lake, {part.table: rows}, (staging.job, staging.batch), new_manifest)
            if kept[part.table].num_rows < rows.num_rows:
                raise CommitConflict(
                    f"another job committed rows of {staging.job}/{staging.batch} at the same "
                    "time. Nothing was lost: run the job "
                    "again"
                )

    return check


def _is_new(commit: Commit, seen_manifest: LakeManifest) -> bool:
    before = seen_manifest.commits.get(commit.key)
    return before is None or before.at != commit.at


def _new_only(
    lake: Lake, tables: dict[str, pa.Table], exclude: tuple[str, str], manifest: LakeManifest
) -> tuple[dict[str, pa.Table], int]:
    kept, left_out = dict(tables), 0
    for name, rows in tables.items():
        if name not in (*REPORT_TABLES, LIFECYCLE.name) or not rows.num_rows:
            continue
        lifecycle = name == LIFECYCLE.name
        held = _held(lake, manifest, name, rows, exclude, LIFECYCLE_KEY if lifecycle else REPORT_KEY)
        if not held.num_rows:
            continue
        known = set(_lifecycle_keys(held) if lifecycle else _report_keys(held))
        keys = _lifecycle_keys(rows) if lifecycle else _report_keys(rows)
        kept[name] = rows.filter(pa.array([key not in known for key in keys], pa.bool_()))
        if name == PROGRESS.name:
            left_out = rows.num_rows - kept[name].num_rows
    return kept, left_out


def _held(
    lake: Lake,
    manifest: LakeManifest,
    name: str,
    rows: pa.Table,
    exclude: tuple[str, str],
    key: tuple[str, ...],
) -> pa.Table:
    """The keys that the lake holds for these runs on these days."""
    parts = list(_parts(manifest, name, rows[TABLES[name].partition_column], exclude, name == LIFECYCLE.name))
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
    manifest: LakeManifest, name: str, moments: pa.ChunkedArray, exclude: tuple[str, str], adjacent: bool
) -> Iterator[str]:
    days = set(_days(moments))
    if adjacent:
        days |= {day + MAX_CLOCK_SKEW for day in days if day < date.max} | {
            day - MAX_CLOCK_SKEW for day in days if day > date.min
        }
    if not days:
        return
    for part in manifest.parts(name, min(days), max(days)):
        if part.date in days and manifest.live_parts[part.path][1].key != exclude:
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


def _lifecycle_keys(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    key_parts = zip(
        rows["run_id"].to_pylist(),
        rows["event"].to_pylist(),
        rows["reported_at"].cast(pa.int64()).to_pylist(),
        strict=True,
    )
    return ((run, event, None if event in ONCE_PER_RUN and run else at) for run, event, at in key_parts)
