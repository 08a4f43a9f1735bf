"""Reads what the lake has of queries, by pyarrow: the files of the days concerned, of them the groups of rows.

The manifest is read again after a few seconds; what was read of whole days is remembered while its files stand.
Called for times that the store has forgotten by `controlplane.series` and `controlplane.api`. From any thread.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs as filesystems

from alerts.promql.errors import TooCostly
from controlplane.errors import LakeError
from controlplane.history import reports
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Manifest
from controlplane.lake.schema import arrow
from controlplane.model import ProgressSample

MANIFEST_SECONDS = 5.0
#: What is remembered of days, in bytes of columns.
MOST_BYTES = 128 * 1024 * 1024
#: Rows of one answer; the groups of rows read for it may hold more.
MOST_ROWS = 2_000_000
#: So many days are looked through for the last reports before a stretch.
LOOK_BACK_DAYS = 8
INDEX = ("at", "trigger_at", "batch_id", "run_id")
ADVICE = "ask for one query or for a shorter time; `controlplane history rollup` makes long ranges cheap"


@dataclass(frozen=True)
class Where:
    """Which rows; `key` stands for them where the answer is remembered, None where it is not."""

    expression: ds.Expression
    key: tuple[str, ...] | None

    def but(self, expression: ds.Expression, word: str | None = None) -> Where:
        """Only those that pass this, too; `word` stands for it."""
        key = None if word is None or self.key is None else (word, *self.key)
        return Where(self.expression & expression, key)


class Archive:
    """The lake at `url`, which may appear, vanish and come back. `monotonic`: seconds, for the manifest's age."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic):
        self.url = url
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        self._manifest: tuple[float, Manifest] | None = None
        self._known: OrderedDict[tuple[object, ...], pa.Table] = OrderedDict()
        self._bytes = 0

    # -- what there is ---------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """What the lake holds. LakeError where there is none, or it cannot be read."""
        with self._lock:
            now = self._monotonic()
            if self._manifest is None or now - self._manifest[0] > MANIFEST_SECONDS:
                try:
                    self._lake = self._lake or Lake.open(self.url)
                    self._manifest = now, self._lake.manifest()
                except OSError as error:
                    raise LakeError(f"the lake at {self.url} cannot be read: {error}") from None
            return self._manifest[1]

    def refresh(self) -> None:
        """Look at the manifest anew: events are about to leave the store."""
        with self._lock:
            self._manifest = None

    def days(self, table: str, start: float, end: float) -> list[date]:
        """Days of a table that has rows, between two moments."""
        parts = self.manifest().parts(table, day_of(start), day_of(end))
        return sorted({part.date for part in parts})

    def table(
        self,
        table: str,
        columns: Sequence[str],
        days: Iterable[date],
        where: Where | None = None,
        most: int = MOST_ROWS,
    ) -> pa.Table:
        """Rows of whole days, in the order of the files. TooCostly where they are more than `most`."""
        wanted = set(days)
        first, last = (min(wanted), max(wanted)) if wanted else (date.min, date.min)
        parts = [part for part in self.manifest().parts(table, first, last) if part.date in wanted]
        if not parts:
            return pa.schema([arrow(table).field(name) for name in columns]).empty_table()
        expression = None if where is None else where.expression
        paths = [part.path for part in parts]
        if where is not None and where.key is None:
            return self._read(table, columns, paths, expression, most)
        files = tuple((part.path, part.bytes) for part in parts)
        key = (table, tuple(columns), files, where and where.key)
        known = self._remembered(key)
        if known is None:
            known = self._read(table, columns, paths, expression, most)
            self._remember(key, known)
        return known

    def _read(
        self, table: str, columns: Sequence[str], paths: list[str], where: ds.Expression | None, most: int
    ) -> pa.Table:
        assert self._lake is not None
        folder = self._lake.folder
        # Arrow's own files are read without Python, by many threads.
        fs = filesystems.LocalFileSystem() if folder.is_local else folder.fs
        try:
            data = ds.dataset(
                [folder.at(path) for path in paths], schema=arrow(table), format="parquet", filesystem=fs
            )
            if data.count_rows(filter=where) > most:
                raise TooCostly(f"more than {most} rows of {table} would have to be read: {ADVICE}")
            return data.to_table(columns=list(columns), filter=where)
        except (OSError, pa.ArrowException) as error:
            with self._lock:
                self._manifest = None  # another job may have put other files in their place
            raise LakeError(f"a file of {table} in {folder} cannot be read: {error}") from None

    def _remembered(self, key: tuple[object, ...]) -> pa.Table | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def _remember(self, key: tuple[object, ...], table: pa.Table) -> None:
        with self._lock:
            if table.nbytes > MOST_BYTES // 2 or key in self._known:
                return
            self._known[key] = table
            self._bytes += table.nbytes
            while self._bytes > MOST_BYTES:
                self._bytes -= self._known.popitem(last=False)[1].nbytes

    # -- reports of one query --------------------------------------------------------------------

    def index(self, query_id: str, start: float, end: float) -> pa.Table:
        """`INDEX` of the reports with start < at <= end, oldest first."""
        found = self.index_of(query_id, self._spanned(start, end))
        return between(found, "at", start, end).sort_by([(name, "ascending") for name in INDEX[:3]])

    def index_of(self, query_id: str, days: Iterable[date]) -> pa.Table:
        """`INDEX` of the reports whose triggers began on these days."""
        return self.table("progress", INDEX, days, of([query_id]))

    def count(self, query_ids: Sequence[str], start: float, end: float) -> int:
        """How many reports these queries have with start < at <= end."""
        return sum(self.index(query_id, start, end).num_rows for query_id in query_ids)

    def times(self, query_id: str, start: float, end: float) -> list[float]:
        return [at / 1e6 for at in self.index(query_id, start, end)["at"].cast(pa.int64()).to_pylist()]

    def reports(self, query_id: str, start: float, end: float, before: int = 0) -> list[ProgressSample]:
        """Reports with start < at <= end, and up to `before` earlier ones; oldest first."""
        found = self.picked(query_id, self.index(query_id, start, end))
        return [*self._earlier(query_id, start, before), *found] if before else found

    def _earlier(self, query_id: str, start: float, before: int) -> list[ProgressSample]:
        index = self.index(query_id, start - 86400.0, start)
        if index.num_rows < before:
            index = self.index(query_id, start - LOOK_BACK_DAYS * 86400.0, start)
        return self.picked(query_id, index.slice(max(0, index.num_rows - before)))

    def picked(self, query_id: str, index: pa.Table) -> list[ProgressSample]:
        """The reports of these rows of an index, in their order."""
        if not index.num_rows:
            return []
        triggers = index["trigger_at"]
        days = {day_of(at / 1e6) for at in triggers.cast(pa.int64()).to_pylist()}
        where = of([query_id]).but(pc.field("trigger_at").isin(triggers.combine_chunks()))
        tables = [
            self.table(name, columns, days, where)
            for name, columns in (
                ("progress", reports.PROGRESS),
                ("sources", reports.SOURCES),
                ("state_operators", reports.OPERATORS),
            )
        ]
        order = [("at", "ascending"), ("trigger_at", "ascending"), ("batch_id", "ascending")]
        return reports.samples(tables[0].sort_by(order), tables[1], tables[2])

    def rests(self, query_id: str, start: float, end: float) -> list[tuple[str, float]]:
        """Run and time of each sign that a trigger found nothing, start < t <= end, oldest first."""
        rows = self._life(query_id, start, end, ("run_id", "at"), "idle")
        return [(row["run_id"], row["at"] / 1e6) for row in rows]

    def failed_starts(self, query_id: str, start: float, end: float) -> list[tuple[float, str | None]]:
        """Time and text of each start that failed, start < t <= end."""
        rows = self._life(query_id, start, end, ("at", "exception"), "start_failed")
        return [(row["at"] / 1e6, row["exception"]) for row in rows]

    def _life(
        self, query_id: str, start: float, end: float, columns: tuple[str, ...], event: str
    ) -> list[dict[str, Any]]:
        where = of([query_id]).but(pc.field("event") == event, event)
        found = self.table("lifecycle", columns, self._spanned(start, end, "lifecycle"), where)
        return reports.rows_of(between(found, "at", start, end).sort_by("at"))

    def _spanned(self, start: float, end: float, table: str = "progress") -> list[date]:
        """Days whose rows may have been heard then: a trigger begins before its report, maybe on the day before."""
        return self.days(table, start - 86400.0, end) if end > start else []


def of(query_ids: Sequence[str]) -> Where:
    """Rows of these queries; files say which groups of rows can have them."""
    ids = tuple(sorted(query_ids))
    column = pc.field("query_id")
    return Where(column == ids[0] if len(ids) == 1 else column.isin(ids), ids)


def between(table: pa.Table, column: str, start: float, end: float) -> pa.Table:
    """Rows with start < t <= end."""
    at = table[column].cast(pa.int64())
    return table.filter(pc.and_(pc.greater(at, micros(start)), pc.less_equal(at, micros(end))))


def micros(at: float) -> int:
    return round(min(max(at, 0.0), 253402300799.0) * 1e6)


def day_of(at: float) -> date:
    """The UTC day of a moment; the first or last possible where it is beyond all days."""
    try:
        return datetime.fromtimestamp(max(at, 0.0), UTC).date()
    except (OverflowError, ValueError, OSError):
        return date.max - timedelta(days=2)
