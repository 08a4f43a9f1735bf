"""Reconcile an imported event log with the lake: keep rows the log no longer contains, drop rows another log
already supplied.

Called by `import_job` on the driver, between the last split of a log and its commit. Reads only key columns,
unless there are rows to keep or to drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from controlplane.lake.deduplication import (
    LIFECYCLE_KEY,
    ONCE_PER_RUN,
    REPORT_KEY,
    REPORT_TABLES,
    drop_stored_rows,
)
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit, LakeManifest, Part
from controlplane.lake.schema import LIFECYCLE, PROGRESS, arrow_schema
from controlplane.lake.staging import Staging

#: Tables that together have a row for every run in a log.
RUN_TABLES = (PROGRESS.name, LIFECYCLE.name)


def retain_missing_rows(
    lake: Lake, staging: Staging, parts: Sequence[Part], held: LakeManifest
) -> tuple[list[Part], int]:
    """Stage the batch's rows that are in the lake but not in `parts`; return their parts and the number of
    reports.

    Old files of a rolling log are deleted, logs are truncated, and application names recur. `held`: the
    lake's manifest.
    """
    found: list[Part] = []
    reports = 0
    before = sorted(staging.previous_state[1]) if staging.previous_state else []
    for table in (*REPORT_TABLES, LIFECYCLE.name):
        paths = [path for path in before if path.startswith(f"{table}/")]
        if not paths:
            continue
        staged = [lake.folder.absolute(staging.path, part.path) for part in parts if part.table == table]
        imported_keys = _keys(lake, table, staged).group_by(list(_key(table))).aggregate([])
        for index, path in enumerate(paths):
            rows = _missing_rows(lake, table, lake.folder.absolute(path), imported_keys)
            if rows.num_rows:
                rows = drop_stored_rows(lake, {table: rows}, (staging.job, staging.batch), held)[0][table]
            found += staging.write(table, rows, f"kept-{index}")
            reports += rows.num_rows if table == PROGRESS.name else 0
    return found, reports


def _missing_rows(lake: Lake, table: str, path: str, imported_keys: pa.Table) -> pa.Table:
    """The rows of a file of the lake whose keys are not in `imported_keys`."""
    keys = _keys(lake, table, [path])
    numbered = keys.append_column("row", pa.array(range(keys.num_rows), pa.int64()))
    missing = numbered.join(imported_keys, keys=list(_key(table)), join_type="left anti")["row"]
    if not len(missing):
        return arrow_schema(table).empty_table()
    return _read(lake, [path], arrow_schema(table)).take(missing)


def _keys(lake: Lake, table: str, paths: Sequence[str]) -> pa.Table:
    """The key columns of files, without nulls; once-per-run events have no time."""
    schema = pa.schema([arrow_schema(table).field(name) for name in _key(table)])
    rows = _read(lake, paths, schema)
    run = pc.fill_null(rows["run_id"], "")
    if table != LIFECYCLE.name:
        return pa.table([run, rows["batch_id"], rows["trigger_at"].cast(pa.int64())], list(REPORT_KEY))
    at = rows["reported_at"].cast(pa.int64())
    once = pc.and_(pc.is_in(rows["event"], pa.array(ONCE_PER_RUN)), pc.is_valid(rows["run_id"]))
    return pa.table([run, rows["event"], pc.if_else(once, 0, at)], list(LIFECYCLE_KEY))


def _key(table: str) -> tuple[str, ...]:
    return LIFECYCLE_KEY if table == LIFECYCLE.name else REPORT_KEY


def _read(lake: Lake, paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    if not paths:
        return schema.empty_table()
    return ds.dataset(list(paths), schema=schema, format="parquet", filesystem=lake.folder.fs).to_table()


class ImportedRuns:
    """Runs that the current import brought, with their commits: copies of a log have other names but the same
    runs.
    """

    def __init__(self) -> None:
        self._by: dict[str, dict[tuple[str, str], Commit]] = {}

    def once(
        self, lake: Lake, staging: Staging, parts: Sequence[Part]
    ) -> tuple[list[Part], int, frozenset[str]]:
        """Return the parts without rows that this import already brought, the number of reports dropped, and
        the runs.
        """
        paths = [lake.folder.absolute(staging.path, part.path) for part in parts if part.table in RUN_TABLES]
        run_ids = _read(lake, paths, pa.schema([arrow_schema(PROGRESS.name).field("run_id")]))["run_id"]
        runs = frozenset(pc.unique(run_ids).to_pylist())
        others: Mapping[tuple[str, str], Commit] = {
            key: commit for run in runs for key, commit in self._by.get(run, {}).items()
        }
        if not others.keys() - {(staging.job, staging.batch)}:
            return list(parts), 0, runs
        found: list[Part] = []
        known = 0
        for index, part in enumerate(parts):
            rows = _read(lake, [lake.folder.absolute(staging.path, part.path)], arrow_schema(part.table))
            tables, left_out = drop_stored_rows(
                lake, {part.table: rows}, (staging.job, staging.batch), LakeManifest(others)
            )
            known += left_out
            found += staging.write(part.table, tables[part.table], f"once-{index}")
        return found, known, runs

    def note(self, runs: Iterable[str], commit: Commit) -> None:
        """Record that a commit contains these runs."""
        for run in runs:
            self._by.setdefault(run, {})[commit.key] = commit
