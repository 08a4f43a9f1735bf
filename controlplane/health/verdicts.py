"""The verdicts as they stand: which status each query has, and since when; changes go to the store.

A verdict is made anew when its query's view changed, or after `FRESH_SECONDS` seconds: however many people
look, an unchanged query is judged once. Called by the scheduler's tick and the API, calls
`controlplane.health.judge`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.health import judge
from controlplane.model import QueryStatus, QueryView, Verdict

ENDED = frozenset({QueryStatus.FAILED, QueryStatus.STOPPED, QueryStatus.FINISHED})
FRESH_SECONDS = 4.0  # seconds; less than a tick, so that each tick looks again at everything


@dataclass(frozen=True)
class StatusChange:
    """A query took this status at `at`. `before`: the one on record until then, if there is one."""

    query_id: str
    at: float
    status: QueryStatus
    reason: str
    before: QueryStatus | None = None


@dataclass(frozen=True, eq=False)
class QueryVerdict:
    """A verdict with the view and the moment it was made from; each is itself, so it can be a key."""

    view: QueryView
    at: float
    verdict: Verdict

    def holds(self, view: QueryView, now: float) -> bool:
        return self.view is view and 0 <= now - self.at < FRESH_SECONDS


class VerdictLog:
    """The verdict of every query, and the last status on record. Any thread may ask."""

    def __init__(self, listening_since: float = 0.0) -> None:
        """`listening_since`: the server's start; before it nobody could be heard."""
        self._listening_since = listening_since
        self._lock = threading.Lock()
        self._standing: dict[str, tuple[QueryStatus, float]] = {}
        self._judged: dict[str, QueryVerdict] = {}

    def load(self, changes: Iterable[StatusChange]) -> None:
        """The last change of each query, from the store."""
        with self._lock:
            self._standing.update((c.query_id, (c.status, c.at)) for c in changes)

    def take(self, changes: Iterable[StatusChange]) -> list[StatusChange]:
        """Those that nobody took yet, to be written down; `give_back` where that fails."""
        with self._lock:
            taken = [c for c in changes if self._standing.get(c.query_id, (None, 0.0))[0] != c.status]
            self._standing.update((c.query_id, (c.status, c.at)) for c in taken)
            return taken

    def give_back(self, changes: Iterable[StatusChange]) -> None:
        """They are not on record: the next look finds them again."""
        with self._lock:
            for change in changes:
                if self._standing.get(change.query_id) == (change.status, change.at):
                    del self._standing[change.query_id]

    def judged(self, view: QueryView, now: float) -> QueryVerdict:
        known = self._judged.get(view.query_id)
        if known is None or not known.holds(view, now):
            known = QueryVerdict(view, now, judge.judge(view, now, listening_since=self._listening_since))
            self._judged[view.query_id] = known
        return known

    def all(self, views: Iterable[QueryView], now: float) -> Mapping[str, Verdict]:
        """Verdicts by query id."""
        return {view.query_id: self.judged(view, now).verdict for view in views}

    def since(self, query_id: str, status: QueryStatus, now: float) -> float:
        """When this status began; `now` where it is newer than the last record."""
        known = self._standing.get(query_id)
        return known[1] if known and known[0] == status else now

    def changes(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """What differs from the record. `views` are all there are: others are forgotten."""
        views = list(views)
        for gone in self._judged.keys() - {view.query_id for view in views}:
            self._judged.pop(gone, None)
        return self.changes_of(views, now)

    def changes_of(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """The same for some of the queries, as soon as something happened to them."""
        return [change for view in views if (change := self._change(view, now)) is not None]

    def _change(self, view: QueryView, now: float) -> StatusChange | None:
        verdict = self.judged(view, now).verdict
        standing, since = self._standing.get(view.query_id, (None, 0.0))
        if standing == verdict.status:
            return None
        began = max(since, _began(view, verdict, now))
        return StatusChange(view.query_id, began, verdict.status, verdict.reason, before=standing)


def _began(view: QueryView, verdict: Verdict, now: float) -> float:
    """When this status began: an end has a time of its own; anything else began when we saw it."""
    run = view.run
    if run is None or verdict.status not in ENDED:
        return now
    ended = max(run.ended_at or 0.0, view.start_failed_at or 0.0)
    return min(ended or now, now)
