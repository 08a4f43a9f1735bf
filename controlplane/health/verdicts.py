"""The current verdict on every query, and since when each status holds; status changes go to the store.

A verdict is computed again when its query's view has changed or after `FRESH_SECONDS`, so an unchanged query
is judged once, no matter how many clients ask. Called by the scheduler's tick and the API; calls
`controlplane.health.judge`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.health import judge
from controlplane.model import QueryStatus, QueryView, Verdict

ENDED = frozenset({QueryStatus.FAILED, QueryStatus.STOPPED, QueryStatus.FINISHED})
#: Less than a tick, so that each tick computes every verdict again.
FRESH_SECONDS = 4.0


@dataclass(frozen=True)
class StatusChange:
    """A query took this status at `at`, Unix seconds. `before`: the status recorded until then, if any."""

    query_id: str
    at: float
    status: QueryStatus
    reason: str
    before: QueryStatus | None = None


@dataclass(frozen=True, eq=False)
class QueryVerdict:
    """A verdict with the view and the time it was computed from.

    Compared by identity, so it can be a cache key.
    """

    view: QueryView
    at: float
    verdict: Verdict

    def holds(self, view: QueryView, now: float) -> bool:
        """Whether the verdict is still valid for this view at `now`."""
        return self.view is view and 0 <= now - self.at < FRESH_SECONDS


class VerdictLog:
    """The verdict on every query, and its last recorded status. Thread-safe."""

    def __init__(self, listening_since: float = 0.0) -> None:
        """`listening_since`: the server's start; it received no heartbeats before."""
        self._listening_since = listening_since
        self._lock = threading.Lock()
        self._recorded: dict[str, tuple[QueryStatus, float]] = {}
        self._verdicts: dict[str, QueryVerdict] = {}

    def load(self, changes: Iterable[StatusChange]) -> None:
        """Take over the last recorded change of each query from the store."""
        with self._lock:
            self._recorded.update((c.query_id, (c.status, c.at)) for c in changes)

    def claim(self, changes: Iterable[StatusChange]) -> list[StatusChange]:
        """Return the changes that are not recorded yet, marked as recorded; `release` them on failure."""
        with self._lock:
            claimed = [c for c in changes if self._recorded.get(c.query_id, (None, 0.0))[0] != c.status]
            self._recorded.update((c.query_id, (c.status, c.at)) for c in claimed)
            return claimed

    def release(self, changes: Iterable[StatusChange]) -> None:
        """Mark claimed changes as not recorded, so that the next tick finds them again."""
        with self._lock:
            for change in changes:
                if self._recorded.get(change.query_id) == (change.status, change.at):
                    del self._recorded[change.query_id]

    def verdict_of(self, view: QueryView, now: float) -> QueryVerdict:
        """The verdict on a view, from the cache if it still holds."""
        known = self._verdicts.get(view.query_id)
        if known is None or not known.holds(view, now):
            known = QueryVerdict(view, now, judge.judge(view, now, listening_since=self._listening(view)))
            self._verdicts[view.query_id] = known
        return known

    def _listening(self, view: QueryView) -> float:
        """Since when silence counts: a query that was lost stays lost over a restart until its driver reports."""
        recorded = self._recorded.get(view.query_id)
        return 0.0 if recorded and recorded[0] is QueryStatus.LOST else self._listening_since

    def all(self, views: Iterable[QueryView], now: float) -> Mapping[str, Verdict]:
        """Verdicts by query id."""
        return {view.query_id: self.verdict_of(view, now).verdict for view in views}

    def since(self, query_id: str, status: QueryStatus, now: float) -> float:
        """When this status began; `now` if it is not recorded yet."""
        known = self._recorded.get(query_id)
        return known[1] if known and known[0] == status else now

    def changes(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """Statuses that differ from the recorded ones. `views` are all views; other queries leave the cache."""
        views = list(views)
        for gone in self._verdicts.keys() - {view.query_id for view in views}:
            self._verdicts.pop(gone, None)
        return self.changes_of(views, now)

    def changes_of(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """The same for some of the queries, right after an event of theirs."""
        return [change for view in views if (change := self._change(view, now)) is not None]

    def _change(self, view: QueryView, now: float) -> StatusChange | None:
        verdict = self.verdict_of(view, now).verdict
        recorded, since = self._recorded.get(view.query_id, (None, 0.0))
        if recorded == verdict.status:
            return None
        began = max(since, _began(view, verdict, now))
        return StatusChange(view.query_id, began, verdict.status, verdict.reason, before=recorded)


def _began(view: QueryView, verdict: Verdict, now: float) -> float:
    """When this status began: with the end of the run, or with Spark's last answer; else `now`."""
    run, outage = view.run, view.agent.outage if view.agent else None
    if verdict.status is QueryStatus.UNREACHABLE and outage is not None:
        return min(outage.since, now)
    if run is None or verdict.status not in ENDED:
        return now
    ended = max(run.ended_at or 0.0, view.start_failed_at or 0.0)
    return min(ended or now, now)
