"""Read the lake's data about queries with pyarrow: of the days concerned, only the row groups concerned.

Called by `controlplane.metrics.series` and `controlplane.api` for times that the store no longer has.
Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.history import progress_samples
from controlplane.history.lake_cache import LakeCache, RowFilter
from controlplane.lake.manifest import LakeManifest
from controlplane.model import ProgressSample

#: Days that are searched for the last reports before a range.
LOOKBACK_DAYS = 8
INDEX_COLUMNS = ("reported_at", "trigger_at", "batch_id", "run_id")
#: Total time that one request waits for the lake.
REQUEST_TIMEOUT_SECONDS = 20.0


class Archive:
    """The lake at `url`, read through a cache. `monotonic`: clock in seconds. Call `within` per request."""

    def __init__(
        self, url: str, monotonic: Callable[[], float] = time.monotonic, cache: LakeCache | None = None
    ):
        self._monotonic = monotonic
        self._cache = cache or LakeCache(url, monotonic)
        self._deadline: float | None = None

    def within(self, seconds: float = REQUEST_TIMEOUT_SECONDS) -> Archive:
        """The same archive for one request: LakeError once the request has waited `seconds` for the lake."""
        limited = Archive(self._cache.url, self._monotonic, self._cache)
        limited._deadline = self._monotonic() + seconds
        return limited

    @property
    def _remaining(self) -> float:
        return REQUEST_TIMEOUT_SECONDS if self._deadline is None else self._deadline - self._monotonic()

    # -- what there is ---------------------------------------------------------------------------

    def manifest(self) -> LakeManifest:
        """The lake's manifest. LakeError where there is no lake or it cannot be read."""
        return self._cache.manifest(self._remaining)

    def refresh(self) -> None:
        """Discard the cached manifest: events are about to leave the store."""
        self._cache.refresh()

    def days(self, table: str, start: float, end: float) -> list[date]:
        """Days between two times on which a table has rows."""
        parts = self.manifest().parts(table, day_of(start), day_of(end))
        return sorted({part.date for part in parts})

    def table(
        self, table: str, columns: Sequence[str], days: Iterable[date], where: RowFilter | None = None
    ) -> pa.Table:
        """Rows of whole days, in file order. TooCostly where there are too many."""
        return self._cache.table(table, columns, days, where, self._remaining)

    # -- reports of one query --------------------------------------------------------------------

    def index(self, query_id: str, start: float, end: float) -> pa.Table:
        """`INDEX_COLUMNS` of the reports with start < at <= end, oldest first."""
        picked = self.index_days(query_id, self._days_overlapping(start, end))
        return between(picked, "reported_at", start, end).sort_by(
            [(name, "ascending") for name in INDEX_COLUMNS[:3]]
        )

    def index_days(self, query_id: str, days: Iterable[date]) -> pa.Table:
        """`INDEX_COLUMNS` of the reports whose triggers started on these days."""
        return self.table("progress", INDEX_COLUMNS, days, where_queries([query_id]))

    def count(self, query_ids: Sequence[str], start: float, end: float) -> int:
        """Number of reports of these queries with start < at <= end."""
        return sum(self.index(query_id, start, end).num_rows for query_id in query_ids)

    def times(self, query_id: str, start: float, end: float) -> list[float]:
        """Times of the reports with start < at <= end, oldest first."""
        return [
            at / 1e6 for at in self.index(query_id, start, end)["reported_at"].cast(pa.int64()).to_pylist()
        ]

    def reports(self, query_id: str, start: float, end: float, before: int = 0) -> list[ProgressSample]:
        """Reports with start < at <= end, and up to `before` earlier ones; oldest first."""
        picked = self.read_samples(query_id, self.index(query_id, start, end))
        return [*self._earlier(query_id, start, before), *picked] if before else picked

    def _earlier(self, query_id: str, start: float, before: int) -> list[ProgressSample]:
        index = self.index(query_id, start - 86400.0, start)
        if index.num_rows < before:
            index = self.index(query_id, start - LOOKBACK_DAYS * 86400.0, start)
        return self.read_samples(query_id, index.slice(max(0, index.num_rows - before)))

    def read_samples(self, query_id: str, index: pa.Table) -> list[ProgressSample]:
        """The full reports of these rows of an index, in their order."""
        if not index.num_rows:
            return []
        triggers = index["trigger_at"]
        days = {day_of(at / 1e6) for at in triggers.cast(pa.int64()).to_pylist()}
        where = where_queries([query_id]).and_(pc.field("trigger_at").isin(triggers.combine_chunks()))
        tables = [
            self.table(name, columns, days, where)
            for name, columns in (
                ("progress", progress_samples.PROGRESS_COLUMNS),
                ("sources", progress_samples.SOURCE_COLUMNS),
                ("state_operators", progress_samples.OPERATOR_COLUMNS),
            )
        ]
        order = [("reported_at", "ascending"), ("trigger_at", "ascending"), ("batch_id", "ascending")]
        return progress_samples.progress_samples(tables[0].sort_by(order), tables[1], tables[2])

    def rests(self, query_id: str, start: float, end: float) -> list[tuple[str, float]]:
        """Run and time of each idle event with start < t <= end, oldest first."""
        rows = self._lifecycle(query_id, start, end, ("run_id", "reported_at"), "idle")
        return [(row["run_id"], row["reported_at"] / 1e6) for row in rows]

    def failed_starts(self, query_id: str, start: float, end: float) -> list[tuple[float, str | None]]:
        """Time and exception text of each failed start with start < t <= end."""
        rows = self._lifecycle(query_id, start, end, ("reported_at", "exception"), "start_failed")
        return [(row["reported_at"] / 1e6, row["exception"]) for row in rows]

    def _lifecycle(
        self, query_id: str, start: float, end: float, columns: tuple[str, ...], event: str
    ) -> list[dict[str, Any]]:
        where = where_queries([query_id]).and_(pc.field("event") == event, event)
        picked = self.table("lifecycle", columns, self._days_overlapping(start, end, "lifecycle"), where)
        return progress_samples.to_rows(between(picked, "reported_at", start, end).sort_by("reported_at"))

    def _days_overlapping(self, start: float, end: float, table: str = "progress") -> list[date]:
        """Days that may hold rows reported in the range: a trigger starts before its report, possibly on the
        previous day.
        """
        return self.days(table, start - 86400.0, end) if end > start else []


def where_queries(query_ids: Sequence[str]) -> RowFilter:
    """A filter for rows of these queries; Parquet statistics exclude row groups without them."""
    ids = tuple(sorted(query_ids))
    column = pc.field("query_id")
    return RowFilter(column == ids[0] if len(ids) == 1 else column.isin(ids), ids)


def between(table: pa.Table, column: str, start: float, end: float) -> pa.Table:
    """Rows with start < t <= end."""
    at = table[column].cast(pa.int64())
    return table.filter(pc.and_(pc.greater(at, micros(start)), pc.less_equal(at, micros(end))))


def micros(at: float) -> int:
    """Unix seconds as microseconds, limited to the years 1970 to 9999."""
    return round(min(max(at, 0.0), 253402300799.0) * 1e6)


def day_of(at: float) -> date:
    """The UTC day of a time, limited to representable days."""
    try:
        return datetime.fromtimestamp(max(at, 0.0), UTC).date()
    except (OverflowError, ValueError, OSError):
        return date.max - timedelta(days=2)
