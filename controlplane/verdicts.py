"""The verdicts as they stand: which status each query has, and since when; changes go to the store.

A verdict is made anew when its query's view changed, or after `FRESH` seconds: however many people
look, an unchanged query is judged once. Called by the scheduler's tick and the API, calls
`controlplane.health`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane import health
from controlplane.model import QueryStatus, QueryView, Verdict

FRESH = 4.0  # seconds; less than a tick, so that each tick looks again at everything


@dataclass(frozen=True)
class Change:
    """A query took this status at `at`."""

    query_id: str
    at: float
    status: QueryStatus
    reason: str


@dataclass(frozen=True, eq=False)
class Judged:
    """A verdict with the view and the moment it was made from; each is itself, so it can be a key."""

    view: QueryView
    at: float
    verdict: Verdict

    def holds(self, view: QueryView, now: float) -> bool:
        return self.view is view and 0 <= now - self.at < FRESH


class VerdictLog:
    """The verdict of every query, and the last status on record. Any thread may ask."""

    def __init__(self, listening_since: float = 0.0) -> None:
        """`listening_since`: the server's start; before it nobody could be heard."""
        self._listening_since = listening_since
        self._lock = threading.Lock()
        self._standing: dict[str, tuple[QueryStatus, float]] = {}
        self._judged: dict[str, Judged] = {}

    def load(self, changes: Iterable[Change]) -> None:
        """The last change of each query, from the store; or changes that are in the store now."""
        with self._lock:
            self._standing.update((c.query_id, (c.status, c.at)) for c in changes)

    def judged(self, view: QueryView, now: float) -> Judged:
        known = self._judged.get(view.query_id)
        if known is None or not known.holds(view, now):
            known = Judged(view, now, health.judge(view, now, listening_since=self._listening_since))
            self._judged[view.query_id] = known
        return known

    def all(self, views: Iterable[QueryView], now: float) -> Mapping[str, Verdict]:
        """Verdicts by query id."""
        return {view.query_id: self.judged(view, now).verdict for view in views}

    def since(self, query_id: str, status: QueryStatus, now: float) -> float:
        """When this status began; `now` where it is newer than the last record."""
        known = self._standing.get(query_id)
        return known[1] if known and known[0] == status else now

    def changes(self, views: Iterable[QueryView], now: float) -> list[Change]:
        """What differs from the record. `views` are all there are: others are forgotten."""
        verdicts = self.all(views, now)
        for gone in self._judged.keys() - verdicts.keys():
            self._judged.pop(gone, None)
        return [
            Change(query_id, now, verdict.status, verdict.reason)
            for query_id, verdict in verdicts.items()
            if self._standing.get(query_id, (None, 0.0))[0] != verdict.status
        ]
