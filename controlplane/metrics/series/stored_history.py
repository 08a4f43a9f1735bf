"""Reads what happened to queries over a stretch of time, as far as the figures that are wanted need it.

Called by `controlplane.metrics.series.replay`. The newest reports are in the window already; only older ones are read
from the store, for unpacking them is what costs. What the store has forgotten is asked of an archive, if there is one.
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

NARROW_HINT = 'ask for one query, as in NAME{query="…"}, or for a shorter time'
#: Counters that reports are read for; of batches the times are enough, starts and failures are in the runs.
_BY_REPORT = frozenset(PREFIX + name for name, _ in COUNTERS.values()) - {
    PREFIX + "batches_total",
    PREFIX + "batches_unreported_total",  # no report tells of it: of the past its value now is told
    PREFIX + "query_starts_total",
    PREFIX + "query_failures_total",
}
_BY_TIME = frozenset({PREFIX + "batches_total"})
_BY_RUN = frozenset({PREFIX + "query_starts_total", PREFIX + "query_failures_total"})
#: Figures that come from many reports and from rests; of others the last two reports tell.
DEEP = frozenset({PREFIX + "source_lag_seconds", PREFIX + "source_catch_up_seconds"})


#: A report tells of the time after it until the next one: so long, where the store has forgotten it.
REPORT_REACH_SECONDS = 86400.0


@dataclass(frozen=True)
class QueryPast:
    """A query's past, its counters now, and what was added to them since the beginning of the stretch."""

    history: QueryHistory
    totals: Totals
    later: Sequence[CounterIncrease] = ()
    #: All that went by its name at some time; itself alone where there is no other.
    namesakes: Sequence[QueryHistory] = ()

    def bears(self, t: float) -> bool:
        """Whether it went by its name at `t`, rather than a query that had taken its place."""
        return len(self.namesakes) < 2 or self.history.view.query_id in holders_of_name(self.namesakes, t)


class ArchivedHistory(Protocol):
    """Reports and signs of rest of a query that the store has no more; `controlplane.history.archive` has them.

    Times are Unix seconds, stretches start < t <= end, all in the order of time. May raise LakeError and TooCostly.
    """

    def count(self, query_ids: Sequence[str], start: float, end: float) -> int: ...

    def reports(self, query_id: str, start: float, end: float, before: int = 0) -> list[ProgressSample]:
        """And up to `before` earlier ones."""

    def times(self, query_id: str, start: float, end: float) -> list[float]: ...

    def rests(self, query_id: str, start: float, end: float) -> list[tuple[str, float]]:
        """Run and time."""

    def failed_starts(self, query_id: str, start: float, end: float) -> list[tuple[float, str | None]]:
        """Time and text."""


class HistoryReader:
    """One question on one connection: the pasts of queries over start < t <= end, for the metrics `names`.

    `most`: reports of the stretch that may be read, TooCostly beyond; `before`: how many from before it, at most
    (None: as many as a window holds); `earlier`: where reports are that the store has no more; `every`: two reports
    of each so many seconds will do.
    """

    def __init__(
        self,
        connection: Connection,
        window: Window,
        names: frozenset[str],
        start: float,
        end: float,
        most: int,
        before: int | None = None,
        earlier: ArchivedHistory | None = None,
        every: float | None = None,
    ):
        self._connection, self._window, self._most = connection, window, most
        self._earlier, self._every = earlier, every
        self._since: dict[str, float] = {}
        self._names, self._start, self._end = names, start, end
        self._of_batches, self._deep = bool(names - LIFECYCLE_METRICS), bool(names & DEEP)
        least = window.length if self._deep else 2
        self._before = least if before is None else min(before, least)
        # Batches are counted by their reports where those are read anyway.
        self._by_report = bool(names & _BY_REPORT) or (self._of_batches and bool(names & _BY_TIME))
        if self._by_report:  # every one counts
            self._every = None

    def pasts(self, query_ids: Collection[str]) -> list[QueryPast]:
        families = {one: self._family(one) for one in query_ids}
        involved = sorted({member for family in families.values() for member in family})
        keys = {row.query_id: row.key for row in stored.query_rows(self._connection, involved)}
        chosen = [one for one in involved if one in keys]
        if self._earlier is not None:
            # Nothing that is younger was ever deleted.
            gone = offload_marks.store_complete_since(self._connection)
            self._since = {one: gone for one in chosen if one in families} if gone else {}
        self._bound({one: keys[one] for one in chosen if one in families and self._reaches_back(one)})
        runs, changes = self._runs(keys), self._changes(keys)
        found: dict[str, QueryPast] = {}
        for one in chosen:
            past = self._past(one, keys[one], runs[one], changes[keys[one]], one in families)
            if past is not None:
                found[one] = past
        return [self._with_namesakes(found, one, families[one]) for one in families if one in found]

    def _family(self, query_id: str) -> list[str]:
        view = self._window.view(query_id)
        return (self._window.lineage(view.app, view.name) if view else []) or [query_id]

    @staticmethod
    def _with_namesakes(found: Mapping[str, QueryPast], query_id: str, family: Iterable[str]) -> QueryPast:
        past = found[query_id]
        histories = [found[one].history for one in family if one in found]
        return QueryPast(past.history, past.totals, past.later, histories)

    def _reaches_back(self, query_id: str) -> bool:
        """Whether there may be reports of the stretch that are in the store alone."""
        view = self._window.view(query_id)
        return (
            view is not None
            and len(view.progress) >= self._window.length
            and view.progress[0].at > self._start
        )

    def _lacks(self, query_id: str, since: float) -> float | None:
        """Up to when the store lacks what happened about `since`; None where it has all that tells of that time.

        The last reports from before `since` tell of it, too.
        """
        known = self._since.get(query_id)
        return None if known is None or known + REPORT_REACH_SECONDS <= since else known

    def _bound(self, keys: Mapping[str, int]) -> None:
        if not (self._of_batches or self._by_report):
            return
        reports = stored.count_reports(
            self._connection, list(keys.values()), self._start, self._last, self._every
        )
        for one in self._since if self._earlier is not None and not self._every else ():
            until = self._lacks(one, self._start)
            if until is not None and self._earlier is not None:
                reports += self._earlier.count([one], self._start, min(until, self._last))
        if reports > self._most:
            raise LimitExceeded(
                f"{reports} reports would have to be read, and {self._most} may be: {NARROW_HINT}"
            )

    @property
    def _last(self) -> float:
        """Reports are needed up to there: counters are counted back from now."""
        return float("inf") if self._by_report else self._end

    def _runs(self, keys: Mapping[str, int]) -> Mapping[str, list[RunRow]]:
        runs: dict[str, list[RunRow]] = defaultdict(list)
        for row in stored.runs_until(self._connection, list(keys.values()), self._window_end):
            runs[row.run.query_id].append(row)
        return runs

    @property
    def _window_end(self) -> float:
        """Counters are counted back from now; for all else the end is the end."""
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
        """All that is needed; of a query that is `asked` for only as a namesake, its runs."""
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
        """A view and totals that belong together, although the window moves on meanwhile."""
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
        """What the store has no more of the stretch, and up to `before` from before it."""
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
        """Batches whose reports were not read, and starts that failed."""
        times: list[float] = []
        lacks = self._lacks(query_id, self._start)
        gone = self._earlier if lacks is not None else None
        if self._names & _BY_TIME and not self._by_report:
            times = [at for _, at in stored.report_times(self._connection, [key], self._start)]
            # Late reports may be in both; one that is there for longer than the mark says counts once.
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
    """Both in the order of time, each report once."""
    held = {_identity(report) for report in newer}
    rest = [report for report in older if _identity(report) not in held]
    if rest and newer and rest[-1].at > newer[0].at:
        return sorted([*rest, *newer], key=lambda report: (report.at, report.trigger_at, report.batch_id))
    return [*rest, *newer]


def _identity(report: ProgressSample) -> tuple[str, int, int]:
    """Triggers begin at whole milliseconds."""
    return report.run_id, report.batch_id, round(report.trigger_at * 1000)
