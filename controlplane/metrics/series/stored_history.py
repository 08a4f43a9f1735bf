"""Read the history of queries over a range of time, as far as the wanted metrics need it.

Called by `controlplane.metrics.series.replay`. The newest reports come from the window; only older ones are
read from the store, because unpacking them is expensive. Reports that the store has deleted come from an
archive, if there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from alerts.promql.errors import LimitExceeded
from controlplane.events import progress
from controlplane.events.window import Window
from controlplane.health.failures import explain
from controlplane.metrics.samples import COUNTERS, LIFECYCLE_METRICS, Totals
from controlplane.metrics.series.query_history import (
    CounterIncrease,
    QueryHistory,
    counter_increases,
    holders_of_name,
)
from controlplane.model import ProgressSample, QueryStatus, QueryView
from controlplane.records import RunRow
from controlplane.store import history as stored
from controlplane.store import offload_marks
from listeners.protocol.catalogue import PREFIX

NARROW_HINT = 'select one query, as in NAME{query="…"}, or a shorter range'
#: Counters computed from reports. For batches the times are enough; starts and failures are in the runs.
_BY_REPORT = frozenset(PREFIX + name for name, _ in COUNTERS.values()) - {
    PREFIX + "batches_total",
    PREFIX + "batches_unreported_total",  # not in any report: past times show the current value
    PREFIX + "query_starts_total",
    PREFIX + "query_failures_total",
}
_BY_TIME = frozenset({PREFIX + "batches_total"})
_BY_RUN = frozenset({PREFIX + "query_starts_total", PREFIX + "query_failures_total"})
#: Metrics computed from many reports and from idle triggers; the others need the last two reports.
DEEP = frozenset({PREFIX + "source_lag_seconds", PREFIX + "source_catch_up_seconds"})


#: A report describes the time until the next one: at most this long after reports were deleted.
REPORT_REACH_SECONDS = 86400.0


@dataclass(frozen=True)
class QueryPast:
    """A query's history, its current counters, and their increases since the start of the range."""

    history: QueryHistory
    totals: Totals
    later: Sequence[CounterIncrease] = ()
    #: All queries that had its name at some time, itself included.
    namesakes: Sequence[QueryHistory] = ()

    def holds_name(self, t: float) -> bool:
        """Whether it had its name at `t`, rather than another query of that name."""
        return len(self.namesakes) < 2 or self.history.view.query_id in holders_of_name(self.namesakes, t)


class ArchivedHistory(Protocol):
    """Reports and idle triggers that the store has deleted; implemented by `controlplane.history.archive`.

    Times are Unix seconds, ranges are start < t <= end, results are in the order of time. May raise LakeError
    and TooCostly.
    """

    def count(self, query_ids: Sequence[str], start: float, end: float) -> int:
        """The number of reports."""

    def reports(self, query_id: str, start: float, end: float, before: int = 0) -> list[ProgressSample]:
        """The reports of the range, and up to `before` earlier ones."""

    def times(self, query_id: str, start: float, end: float) -> list[float]:
        """The times of reports."""

    def rests(self, query_id: str, start: float, end: float) -> list[tuple[str, float]]:
        """Idle triggers: run id and time."""

    def failed_starts(self, query_id: str, start: float, end: float) -> list[tuple[float, str | None]]:
        """Failed starts: time and exception text."""


class HistoryReader:
    """Reads, on one connection, the history of queries over start < t <= end for the metrics `names`.

    `max_reports`: limit of reports in the range, TooCostly beyond; `before`: limit of reports before the
    range (None: as many as a window holds); `earlier`: the archive of deleted reports; `every`: read only two
    reports per this many seconds.
    """

    def __init__(
        self,
        connection: Connection,
        window: Window,
        names: frozenset[str],
        start: float,
        end: float,
        max_reports: int,
        before: int | None = None,
        earlier: ArchivedHistory | None = None,
        every: float | None = None,
    ):
        self._connection, self._window, self._max_reports = connection, window, max_reports
        self._earlier, self._every = earlier, every
        self._since: dict[str, float] = {}
        self._names, self._start, self._end = names, start, end
        self._of_batches, self._deep = bool(names - LIFECYCLE_METRICS), bool(names & DEEP)
        least = window.length if self._deep else 2
        self._before = least if before is None else min(before, least)
        # Batches are counted from their reports where these are read anyway.
        self._by_report = bool(names & _BY_REPORT) or (self._of_batches and bool(names & _BY_TIME))
        if self._by_report:  # every report counts
            self._every = None

    def pasts(self, query_ids: Collection[str]) -> list[QueryPast]:
        """The history of each query that the store knows."""
        families = {query_id: self._family(query_id) for query_id in query_ids}
        involved = sorted({member for family in families.values() for member in family})
        keys = {row.query_id: row.key for row in stored.query_rows(self._connection, involved)}
        chosen = [query_id for query_id in involved if query_id in keys]
        if self._earlier is not None:
            # Nothing after this time was ever deleted.
            gone = offload_marks.store_complete_since(self._connection)
            self._since = {query_id: gone for query_id in chosen if query_id in families} if gone else {}
        self._bound(
            {
                query_id: keys[query_id]
                for query_id in chosen
                if query_id in families and self._reaches_back(query_id)
            }
        )
        runs, changes = self._runs(keys), self._changes(keys)
        found: dict[str, QueryPast] = {}
        for query_id in chosen:
            past = self._past(
                query_id, keys[query_id], runs[query_id], changes[keys[query_id]], query_id in families
            )
            if past is not None:
                found[query_id] = past
        return [
            self._with_namesakes(found, query_id, families[query_id])
            for query_id in families
            if query_id in found
        ]

    def _family(self, query_id: str) -> list[str]:
        view = self._window.view(query_id)
        return (self._window.lineage(view.app, view.name) if view else []) or [query_id]

    @staticmethod
    def _with_namesakes(found: Mapping[str, QueryPast], query_id: str, family: Iterable[str]) -> QueryPast:
        past = found[query_id]
        histories = [found[member].history for member in family if member in found]
        return QueryPast(past.history, past.totals, past.later, histories)

    def _reaches_back(self, query_id: str) -> bool:
        """Whether the range may have reports that are not in the window."""
        view = self._window.view(query_id)
        return (
            view is not None
            and len(view.progress) >= self._window.length
            and view.progress[0].at > self._start
        )

    def _lacks(self, query_id: str, since: float) -> float | None:
        """The time up to which the store lacks events about `since`; None if it has all of them.

        The last reports before `since` describe that time, too.
        """
        known = self._since.get(query_id)
        return None if known is None or known + REPORT_REACH_SECONDS <= since else known

    def _bound(self, keys: Mapping[str, int]) -> None:
        if not (self._of_batches or self._by_report):
            return
        reports = stored.count_reports(
            self._connection, list(keys.values()), self._start, self._last, self._every
        )
        for query_id in self._since if self._earlier is not None and not self._every else ():
            until = self._lacks(query_id, self._start)
            if until is not None and self._earlier is not None:
                reports += self._earlier.count([query_id], self._start, min(until, self._last))
        if reports > self._max_reports:
            raise LimitExceeded(
                f"the query needs {reports} reports, the limit is {self._max_reports}: {NARROW_HINT}"
            )

    @property
    def _last(self) -> float:
        """The time up to which reports are needed: counters are computed backwards from now."""
        return float("inf") if self._by_report else self._end

    def _runs(self, keys: Mapping[str, int]) -> Mapping[str, list[RunRow]]:
        runs: dict[str, list[RunRow]] = defaultdict(list)
        for row in stored.runs_until(self._connection, list(keys.values()), self._window_end):
            runs[row.run.query_id].append(row)
        return runs

    @property
    def _window_end(self) -> float:
        """The end for runs: infinite for counters, which are computed backwards from now."""
        return float("inf") if self._names & (_BY_REPORT | _BY_TIME | _BY_RUN) else self._end

    def _changes(self, keys: Mapping[str, int]) -> Mapping[int, list[tuple[float, QueryStatus]]]:
        changes: dict[int, list[tuple[float, QueryStatus]]] = defaultdict(list)
        found = stored.status_changes(self._connection, list(keys.values()), self._start, self._end)
        for key, at, status in found:
            changes[key].append((at, QueryStatus(status)))
        return changes

    def _past(
        self,
        query_id: str,
        key: int,
        runs: Sequence[RunRow],
        changes: Sequence[tuple[float, QueryStatus]],
        asked: bool,
    ) -> QueryPast | None:
        """The history of a query; of a namesake that is not `asked` for, only its runs."""
        view, totals = self._now(query_id)
        if view is None:
            return None
        reports = self._reports(view, key) if asked else []
        since = reports[0].at if reports else self._start
        rests = self._rests(query_id, key, since, runs) if asked and self._deep else {}
        agents = {row.run.agent: self._window.agent(row.run.agent) for row in runs}
        known = {name: agent for name, agent in agents.items() if agent is not None}
        history = QueryHistory(view, runs, reports, rests, changes, self._window.length, known)
        if not asked:
            return QueryPast(history, totals)
        return QueryPast(
            history, totals, counter_increases(history, self._start, *self._counted_apart(query_id, key))
        )

    def _now(self, query_id: str) -> tuple[QueryView | None, Totals]:
        """A consistent pair of view and totals, although the window changes meanwhile."""
        view, totals = self._window.view(query_id), self._window.totals(query_id)
        while view is not (again := self._window.view(query_id)):
            view, totals = again, self._window.totals(query_id)
        return view, totals

    def _reports(self, view: QueryView, key: int) -> Sequence[ProgressSample]:
        if not (self._of_batches or self._by_report):
            return []
        known, lacks = view.progress, self._lacks(view.query_id, self._start)
        if len(known) < self._window.length and lacks is None:
            return known  # there are no others
        if not known:
            return self._before_all(view.query_id, lacks, self._before if self._of_batches else 0)
        begin = known[0].at
        earlier = sum(report.at <= self._start for report in known)
        before = max(0, self._before - earlier) if self._of_batches else 0
        if not before and begin <= self._start:
            return known
        until = min(begin, self._last)
        since = min(self._start, begin)
        older = progress.samples(stored.reports(self._connection, key, since, until, before, self._every))
        if lacks is not None:
            older = _merged(self._before_all(view.query_id, lacks, before), older)
        return older if until < begin else _merged(older, known)

    def _before_all(self, query_id: str, lacks: float | None, before: int) -> list[ProgressSample]:
        """The archived reports of the range, and up to `before` earlier ones."""
        if lacks is None or self._earlier is None:
            return []
        return self._earlier.reports(query_id, self._start, min(lacks, self._last), before)

    def _rests(
        self, query_id: str, key: int, since: float, runs: Sequence[RunRow]
    ) -> Mapping[int, Sequence[float]]:
        rests: dict[int, list[float]] = defaultdict(list)
        lacks = self._lacks(query_id, since)
        if lacks is not None and self._earlier is not None:
            keys = {row.run.run_id: row.run.key for row in runs}
            for run_id, at in self._earlier.rests(query_id, since, min(lacks, self._end)):
                if run_id in keys:
                    rests[keys[run_id]].append(at)
        for run_key, at in stored.idle_times(self._connection, key, since, self._end):
            if run_key is not None:
                rests[run_key].append(at)
        return {run_key: sorted(times) for run_key, times in rests.items()} if lacks else rests

    def _counted_apart(self, query_id: str, key: int) -> tuple[list[float], list[tuple[float, str]]]:
        """The times of batches whose reports were not read, and the failed starts."""
        times: list[float] = []
        lacks = self._lacks(query_id, self._start)
        gone = self._earlier if lacks is not None else None
        if self._names & _BY_TIME and not self._by_report:
            times = [at for _, at in stored.report_times(self._connection, [key], self._start)]
            # Late reports may be in both the store and the archive; they count once.
            times += set(gone.times(query_id, self._start, lacks or 0.0)) - set(times) if gone else set()
        failed: list[tuple[float, str | None]] = []
        if self._names & _BY_RUN:
            failed = [
                (at, progress.text(exception))
                for at, exception in stored.failed_starts(self._connection, key, self._start)
            ]
            failed += (
                set(gone.failed_starts(query_id, self._start, lacks or 0.0)) - set(failed) if gone else set()
            )
        return sorted(times), [(at, explain(text or "").kind) for at, text in sorted(failed, key=_when)]


def _when(failed: tuple[float, str | None]) -> float:
    return failed[0]


def _merged(older: Sequence[ProgressSample], newer: Sequence[ProgressSample]) -> list[ProgressSample]:
    """Both in the order of time, without duplicates."""
    held = {_identity(report) for report in newer}
    rest = [report for report in older if _identity(report) not in held]
    if rest and newer and rest[-1].at > newer[0].at:
        return sorted([*rest, *newer], key=lambda report: (report.at, report.trigger_at, report.batch_id))
    return [*rest, *newer]


def _identity(report: ProgressSample) -> tuple[str, int, int]:
    """The identity of a report; triggers begin at whole milliseconds."""
    return report.run_id, report.batch_id, round(report.trigger_at * 1000)
