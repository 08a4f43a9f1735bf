"""When which query's checkpoint is looked at: after a start that has settled, after an end, never in a rush.

Decides only: `now` is an argument, in seconds that never go back. Called by `listeners.checkpoints.inventories`.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import NamedTuple

#: A run is looked at so long after its start, unless it shows a batch or an idle trigger before.
SETTLE_SECONDS = 30.0
#: Between two looks at one query, where nothing ended between them.
SPACING_SECONDS = 60.0
#: So many starts within so long are a crash loop: then only failures are looked at, one a minute.
LOOP_STARTS = 3
LOOP_SECONDS = 300.0
REMEMBERED_QUERIES = 200


class Due(NamedTuple):
    """A look to take: when, at which run of which query, why."""

    at: float
    query_id: str
    run_id: str
    why: str


@dataclass
class _Case:
    """What is known of one query."""

    starts: list[float] = field(default_factory=list)
    last: float | None = None
    due: Due | None = None


class Timetable:
    """What is due, of all queries. `skipped` counts the looks that a crash loop cost."""

    def __init__(self) -> None:
        self.skipped = 0
        self._cases: collections.OrderedDict[str, _Case] = collections.OrderedDict()

    def started(self, query_id: str, run_id: str, now: float) -> None:
        """A run has begun."""
        case = self._case(query_id)
        case.starts = [*[at for at in case.starts if now - at < LOOP_SECONDS][1 - LOOP_STARTS :], now]
        case.due = None
        if is_crash_loop(case.starts, now):
            self.skipped += 1
        else:
            case.due = Due(not_before(case.last, now + SETTLE_SECONDS), query_id, run_id, "started")

    def awaits(self, query_id: str) -> bool:
        """Whether a look at this query is due some time: cheap, for every event."""
        case = self._cases.get(query_id)
        return case is not None and case.due is not None

    def settled(self, query_id: str, run_id: str, now: float) -> None:
        """The run has shown a batch, or a trigger without data."""
        case = self._cases.get(query_id)
        if case is not None and case.due is not None and case.due.run_id == run_id:
            case.due = case.due._replace(at=min(case.due.at, not_before(case.last, now)))

    def ended(self, query_id: str, run_id: str, failed: bool, now: float) -> None:
        """The run has ended, or could not begin. Late news of an earlier run: the look at the newer one stays due."""
        case = self._case(query_id)
        if case.due is not None and case.due.run_id != run_id:
            return
        if is_crash_loop(case.starts, now) and (not failed or not_before(case.last, now) > now):
            self.skipped += 1
        else:
            case.due = Due(now, query_id, run_id, "failed" if failed else "stopped")

    def _case(self, query_id: str) -> _Case:
        case = self._cases.pop(query_id, None) or _Case()
        self._cases[query_id] = case
        while len(self._cases) > REMEMBERED_QUERIES:
            self._cases.popitem(last=False)
        return case

    def next_at(self) -> float | None:
        """When something is due next."""
        return min((case.due.at for case in self._cases.values() if case.due), default=None)

    def take(self, now: float) -> Due | None:
        """What is due first by now; it is taken off."""
        found = min((case.due for case in self._cases.values() if case.due), default=None)
        if found is None or found.at > now:
            return None
        case = self._cases[found.query_id]
        case.due, case.last = None, now
        return found


def is_crash_loop(starts: list[float], now: float) -> bool:
    return sum(1 for at in starts if now - at < LOOP_SECONDS) >= LOOP_STARTS


def not_before(last: float | None, now: float) -> float:
    """The first moment, from `now` on, that keeps its distance from the last look."""
    return now if last is None else max(now, last + SPACING_SECONDS)
