"""A query's runs, alerts and actions as stored in the lake.

Called by `controlplane.history.service` for the timeline of the Query page. The result includes what the
store still has, as soon as it was offloaded; the caller deduplicates by run, by fingerprint and time, and by
action id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from alerts.durations import DAY_SECONDS
from alerts.promql.errors import LimitExceeded
from controlplane.errors import LakeError
from controlplane.history.archive import Archive, between, where_queries
from controlplane.history.model import PastRun, TimelineResult
from controlplane.history.progress_samples import to_rows, to_seconds
from controlplane.model import RunEnd

#: Newest entries of each kind.
MAX_ENTRIES = 500
#: Characters of an exception; the store keeps more for recent ones.
MAX_FAILURE_CHARS = 4096
#: Days that are searched for a first or last report.
MAX_SCANNED_DAYS = 60
LIFECYCLE_COLUMNS = ("run_id", "event", "reported_at", "exception", "error_class")
ALERT_COLUMNS = ("name", "severity", "fingerprint", "summary", "fired_at", "resolved_at")
ACTION_COLUMNS = (
    "id",
    "action",
    "actor",
    "state",
    "request_reason",
    "reason",
    "requested_at",
    "finished_at",
    "evidence",
)
_RUN_EVENTS = pc.field("event").isin(["started", "terminated", "idle"])
Row = dict[str, Any]


def read_timeline(archive: Archive, query_id: str, start: float, end: float) -> TimelineResult:
    """Read the entries between two times. What cannot be read or is too large becomes a note; LakeError
    without a lake.
    """
    archive.manifest()
    notes: list[str] = []

    def read_kind(what: str, reading: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        try:
            found = reading()
        except (LakeError, LimitExceeded) as error:
            notes.append(f"{what} are missing from the lake's history: {error}")
            return ()
        if len(found) > MAX_ENTRIES:
            notes.append(f"only the newest {MAX_ENTRIES} of {len(found)} {what} are shown")
        return found[-MAX_ENTRIES:]

    runs = read_kind("runs", lambda: _RunReader(archive, query_id, start, end).read())
    alerts = read_kind("alerts", lambda: _alerts(archive, query_id, start, end))
    actions = read_kind("actions", lambda: _actions(archive, query_id, start, end))
    return TimelineResult(runs, alerts, actions, notes)


# -- runs ------------------------------------------------------------------------------------------


@dataclass
class _RunBuilder:
    """Events of a run. `signs`: time of its first and last report or idle event."""

    run_id: str
    started_at: float | None = None
    ended_at: float | None = None
    failure: str | None = None
    error_class: str | None = None
    signs: list[float] = field(default_factory=list)

    @property
    def first(self) -> float:
        known = [item for item in (self.started_at, self.ended_at, *self.signs[:1]) if item is not None]
        return min(known)

    def add_sign(self, *times: float) -> None:
        self.signs = [min((*self.signs, *times)), max((*self.signs, *times))]


@dataclass
class _RunReader:
    archive: Archive
    query_id: str
    start: float
    end: float
    #: Day → run → its first and last report.
    _days: dict[date, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def read(self) -> list[PastRun]:
        """Runs, oldest first. The start of a run that began before `start` is unknown."""
        met = {item.run_id: item for item in self._runs_from_lifecycle()}
        for run_id, times in self._first_reports().items():
            met.setdefault(run_id, _RunBuilder(run_id)).add_sign(*times)
        runs = sorted(met.values(), key=lambda item: item.first)
        made, next_start = [], None
        # Of runs beyond the limit only the start is needed.
        for place, run in enumerate(reversed(runs)):
            made.append(self._past_run(run, next_start, place < MAX_ENTRIES))
            next_start = run.first
        return [item for item in reversed(made) if self._overlaps(item)]

    def _runs_from_lifecycle(self) -> Iterator[_RunBuilder]:
        days = self.archive.days("lifecycle", self.start - DAY_SECONDS, self.end)
        where = where_queries([self.query_id]).and_(_RUN_EVENTS, "run events")
        rows = self.archive.table("lifecycle", LIFECYCLE_COLUMNS, days, where).sort_by("reported_at")
        found: dict[str, _RunBuilder] = {}
        for row in to_rows(rows):
            at = to_seconds(row["reported_at"]) or 0.0
            if at > self.end or not row["run_id"]:
                continue
            run = found.setdefault(row["run_id"], _RunBuilder(row["run_id"]))
            if row["event"] == "idle":
                run.add_sign(at)
            elif row["event"] == "started":
                run.started_at = at if run.started_at is None else run.started_at
            elif run.ended_at is None or row["exception"]:
                run.ended_at = at
                run.failure = row["exception"] and row["exception"][:MAX_FAILURE_CHARS]
                run.error_class = row["error_class"]
        yield from found.values()

    def _past_run(self, run: _RunBuilder, next_start: float | None, search_reports: bool) -> PastRun:
        """`next_start`: when the next run started; a run without an end is over by then, its driver was
        killed.
        """
        last_seen = run.signs[1] if run.signs else None
        if run.ended_at is None and search_reports:
            since, until = run.started_at or self.start, min(next_start or self.end, self.end)
            last_seen = max(
                (item for item in (last_seen, self._last_report(run.run_id, since, until)) if item),
                default=None,
            )
        ended, end = run.ended_at, RunEnd.FAILED if run.failure else RunEnd.STOPPED
        if ended is None and next_start is not None:
            ended, end = last_seen or run.first, RunEnd.LOST
        if ended is not None and run.started_at is not None:
            ended = max(ended, run.started_at)  # the times may come from two clocks
        return PastRun(
            run.run_id,
            run.started_at,
            ended,
            None if ended is None else end,
            run.signs[0] if run.signs else None,
            last_seen,
            run.failure,
            run.error_class,
        )

    def _overlaps(self, run: PastRun) -> bool:
        until = run.last_seen_at if run.ended_at is None else run.ended_at
        return (run.started_at or self.start) <= self.end and (until is None or until >= self.start)

    def _first_reports(self) -> Mapping[str, tuple[float, float]]:
        """Reports of the first day that has any: the only trace of the start of a run from before it."""
        for day in self.archive.days("progress", self.start, self.end)[:MAX_SCANNED_DAYS]:
            if found := self._reports(day):
                return found
        return {}

    def _last_report(self, run_id: str, since: float, until: float) -> float | None:
        for day in self.archive.days("progress", since - DAY_SECONDS, until)[: -MAX_SCANNED_DAYS - 1 : -1]:
            if found := self._reports(day).get(run_id):
                return found[1]
        return None

    def _reports(self, day: date) -> Mapping[str, tuple[float, float]]:
        """Run → time of its first and last report on a day, within the range."""
        if day not in self._days:
            rows = self.archive.table(
                "progress", ("run_id", "reported_at"), [day], where_queries([self.query_id])
            )
            reports = between(rows, "reported_at", self.start - 1e-6, self.end)
            times = [("reported_at", "min"), ("reported_at", "max")]
            grouped = to_rows(reports.group_by("run_id").aggregate(times))
            self._days[day] = {
                row["run_id"]: (
                    to_seconds(row["reported_at_min"]) or 0.0,
                    to_seconds(row["reported_at_max"]) or 0.0,
                )
                for row in grouped
            }
        return self._days[day]


# -- alerts and actions ----------------------------------------------------------------------------


def _alerts(archive: Archive, query_id: str, start: float, end: float) -> list[Row]:
    """Episodes that were firing within the range, whenever they began."""
    rows = _rows(
        archive.table("alerts", ALERT_COLUMNS, archive.days("alerts", 0.0, end), where_queries([query_id]))
    )
    return [row for row in rows if row["fired_at"] <= end and (row["resolved_at"] or end) >= start]


def _actions(archive: Archive, query_id: str, start: float, end: float) -> list[Row]:
    rows = _rows(
        archive.table(
            "actions", ACTION_COLUMNS, archive.days("actions", start, end), where_queries([query_id])
        )
    )
    return [
        row | {"evidence": _scalars(row["evidence"])} for row in rows if start <= row["requested_at"] <= end
    ]


def _rows(table: pa.Table) -> list[Row]:
    """Rows with times in Unix seconds, sorted by the first time column."""
    times = [name for name in table.column_names if name.endswith("_at")]
    found = [row | {name: to_seconds(row[name]) for name in times} for row in to_rows(table)]
    return sorted((row for row in found if row[times[0]] is not None), key=lambda row: float(row[times[0]]))


def _scalars(evidence: str | None) -> Row:
    """The scalar values of the evidence; nested ones are left out."""
    try:
        document = json.loads(evidence) if evidence else {}
    except (ValueError, RecursionError):
        return {}
    items = document.items() if isinstance(document, dict) else ()
    return {name: value for name, value in items if isinstance(value, (str, bool, int)) or value is None}
