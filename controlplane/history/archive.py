"""Reads what the lake has of queries, by pyarrow: the files of the days concerned, of them the groups of rows.

Called for times that the store has forgotten by `controlplane.metrics.series` and `controlplane.api`. From any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.history import progress_samples as reports
from controlplane.history.lake_cache import LakeCache, RowFilter
from controlplane.lake.manifest import LakeManifest
from controlplane.model import ProgressSample

#: So many days are looked through for the last reports before a stretch.
LOOKBACK_DAYS = 8
INDEX_COLUMNS = ("reported_at", "trigger_at", "batch_id", "run_id")
#: So long one question may wait for the lake in all.
REQUEST_TIMEOUT_SECONDS = 20.0


class Archive:
    """The lake at `url`, or what `shelf` has of it. `monotonic`: seconds. Once for each question: `within`."""

    def __init__(
        self, url: str, monotonic: Callable[[], float] = time.monotonic, shelf: LakeCache | None = None
    ):
        self._monotonic = monotonic
        self._shelf = shelf or LakeCache(url, monotonic)
        self._until: float | None = None

    def within(self, seconds: float = REQUEST_TIMEOUT_SECONDS) -> Archive:
        """The same for one question: LakeError when it has waited so long for the lake."""
        one = Archive(self._shelf.url, self._monotonic, self._shelf)
        one._until = self._monotonic() + seconds
        return one

    @property
    def _seconds(self) -> float:
        return REQUEST_TIMEOUT_SECONDS if self._until is None else self._until - self._monotonic()

    # -- what there is ---------------------------------------------------------------------------

    def manifest(self) -> LakeManifest:
        """What the lake holds. LakeError where there is none, or it cannot be read."""
        return self._shelf.manifest(self._seconds)

    def refresh(self) -> None:
        """Look at the manifest anew: events are about to leave the store."""
        self._shelf.refresh()

    def days(self, table: str, start: float, end: float) -> list[date]:
        """Days of a table that has rows, between two moments."""
        parts = self.manifest().parts(table, day_of(start), day_of(end))
        return sorted({part.date for part in parts})

    def table(
        self, table: str, columns: Sequence[str], days: Iterable[date], where: RowFilter | None = None
    ) -> pa.Table:
        """Rows of whole days, in the order of the files. TooCostly where they are too many."""
        return self._shelf.table(table, columns, days, where, self._seconds)

    # -- reports of one query --------------------------------------------------------------------

    def index(self, query_id: str, start: float, end: float) -> pa.Table:
        """`INDEX_COLUMNS` of the reports with start < at <= end, oldest first."""
        found = self.index_days(query_id, self._spanned(start, end))
        return between(found, "reported_at", start, end).sort_by(
            [(name, "ascending") for name in INDEX_COLUMNS[:3]]
        )

    def index_days(self, query_id: str, days: Iterable[date]) -> pa.Table:
        """`INDEX_COLUMNS` of the reports whose triggers began on these days."""
        return self.table("progress", INDEX_COLUMNS, days, where_queries([query_id]))

    def count(self, query_ids: Sequence[str], start: float, end: float) -> int:
        """How many reports these queries have with start < at <= end."""
        return sum(self.index(query_id, start, end).num_rows for query_id in query_ids)

    def times(self, query_id: str, start: float, end: float) -> list[float]:
        return [
            at / 1e6 for at in self.index(query_id, start, end)["reported_at"].cast(pa.int64()).to_pylist()
        ]

    def reports(self, query_id: str, start: float, end: float, before: int = 0) -> list[ProgressSample]:
        """Reports with start < at <= end, and up to `before` earlier ones; oldest first."""
        found = self.read_samples(query_id, self.index(query_id, start, end))
        return [*self._earlier(query_id, start, before), *found] if before else found

    def _earlier(self, query_id: str, start: float, before: int) -> list[ProgressSample]:
        index = self.index(query_id, start - 86400.0, start)
        if index.num_rows < before:
            index = self.index(query_id, start - LOOKBACK_DAYS * 86400.0, start)
        return self.read_samples(query_id, index.slice(max(0, index.num_rows - before)))

    def read_samples(self, query_id: str, index: pa.Table) -> list[ProgressSample]:
        """The reports of these rows of an index, in their order."""
        if not index.num_rows:
            return []
        triggers = index["trigger_at"]
        days = {day_of(at / 1e6) for at in triggers.cast(pa.int64()).to_pylist()}
        where = where_queries([query_id]).and_(pc.field("trigger_at").isin(triggers.combine_chunks()))
        tables = [
            self.table(name, columns, days, where)
            for name, columns in (
                ("progress", reports.PROGRESS_COLUMNS),
                ("sources", reports.SOURCE_COLUMNS),
                ("state_operators", reports.OPERATOR_COLUMNS),
            )
        ]
        order = [("reported_at", "ascending"), ("trigger_at", "ascending"), ("batch_id", "ascending")]
        return reports.progress_samples(tables[0].sort_by(order), tables[1], tables[2])

    def rests(self, query_id: str, start: float, end: float) -> list[tuple[str, float]]:
        """Run and time of each sign that a trigger found nothing, start < t <= end, oldest first."""
        rows = self._life(query_id, start, end, ("run_id", "reported_at"), "idle")
        return [(row["run_id"], row["reported_at"] / 1e6) for row in rows]

    def failed_starts(self, query_id: str, start: float, end: float) -> list[tuple[float, str | None]]:
        """Time and text of each start that failed, start < t <= end."""
        rows = self._life(query_id, start, end, ("reported_at", "exception"), "start_failed")
        return [(row["reported_at"] / 1e6, row["exception"]) for row in rows]

    def _life(
        self, query_id: str, start: float, end: float, columns: tuple[str, ...], event: str
    ) -> list[dict[str, Any]]:
        where = where_queries([query_id]).and_(pc.field("event") == event, event)
        found = self.table("lifecycle", columns, self._spanned(start, end, "lifecycle"), where)
        return reports.to_rows(between(found, "reported_at", start, end).sort_by("reported_at"))

    def _spanned(self, start: float, end: float, table: str = "progress") -> list[date]:
        """Days whose rows may have been heard then: a trigger begins before its report, maybe on the day before."""
        return self.days(table, start - 86400.0, end) if end > start else []


def where_queries(query_ids: Sequence[str]) -> RowFilter:
    """Rows of these queries; files say which groups of rows can have them."""
    ids = tuple(sorted(query_ids))
    column = pc.field("query_id")
    return RowFilter(column == ids[0] if len(ids) == 1 else column.isin(ids), ids)


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
