"""When which query's checkpoint is looked at: after a start that has settled, after an end, never in a rush.

Decides only: `now` is an argument, in seconds that never go back. Called by `listeners.checkpoints.inventories`.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import NamedTuple

#: A run is looked at so long after its start, unless it shows a batch or an idle trigger before.
START_DELAY_SECONDS = 30.0
#: Between two looks at one query, where nothing ended between them.
SPACING_SECONDS = 60.0
#: So many starts within so long are a crash loop: then only failures are looked at, one a minute.
CRASH_LOOP_STARTS = 3
CRASH_LOOP_SECONDS = 300.0
MAX_QUERIES = 200


class Due(NamedTuple):
    """A look to take: when, at which run of which query, why."""

    at: float
    query_id: str
    run_id: str
    reason: str


@dataclass
class _QuerySchedule:
    """What is known of one query."""

    starts: list[float] = field(default_factory=list)
    last_taken: float | None = None
    due: Due | None = None


class Timetable:
    """What is due, of all queries. `skipped` counts the looks that a crash loop cost."""

    def __init__(self) -> None:
        self.skipped = 0
        self._schedules: collections.OrderedDict[str, _QuerySchedule] = collections.OrderedDict()

    def started(self, query_id: str, run_id: str, now: float) -> None:
        """A run has begun."""
        schedule = self._schedule(query_id)
        schedule.starts = [
            *[at for at in schedule.starts if now - at < CRASH_LOOP_SECONDS][1 - CRASH_LOOP_STARTS :],
            now,
        ]
        schedule.due = None
        if is_crash_loop(schedule.starts, now):
            self.skipped += 1
        else:
            schedule.due = Due(
                not_before(schedule.last_taken, now + START_DELAY_SECONDS), query_id, run_id, "started"
            )

    def has_due(self, query_id: str) -> bool:
        """Whether a look at this query is due some time: cheap, for every event."""
        schedule = self._schedules.get(query_id)
        return schedule is not None and schedule.due is not None

    def progressed(self, query_id: str, run_id: str, now: float) -> None:
        """The run has shown a batch, or a trigger without data."""
        schedule = self._schedules.get(query_id)
        if schedule is not None and schedule.due is not None and schedule.due.run_id == run_id:
            schedule.due = schedule.due._replace(
                at=min(schedule.due.at, not_before(schedule.last_taken, now))
            )

    def ended(self, query_id: str, run_id: str, failed: bool, now: float) -> None:
        """The run has ended, or could not begin. Late news of an earlier run: the look at the newer one stays due."""
        schedule = self._schedule(query_id)
        if schedule.due is not None and schedule.due.run_id != run_id:
            return
        if is_crash_loop(schedule.starts, now) and (not failed or not_before(schedule.last_taken, now) > now):
            self.skipped += 1
        else:
            schedule.due = Due(now, query_id, run_id, "failed" if failed else "stopped")

    def _schedule(self, query_id: str) -> _QuerySchedule:
        schedule = self._schedules.pop(query_id, None) or _QuerySchedule()
        self._schedules[query_id] = schedule
        while len(self._schedules) > MAX_QUERIES:
            self._schedules.popitem(last=False)
        return schedule

    def next_at(self) -> float | None:
        """When something is due next."""
        return min((schedule.due.at for schedule in self._schedules.values() if schedule.due), default=None)

    def take(self, now: float) -> Due | None:
        """What is due first by now; it is taken off."""
        found = min((schedule.due for schedule in self._schedules.values() if schedule.due), default=None)
        if found is None or found.at > now:
            return None
        schedule = self._schedules[found.query_id]
        schedule.due, schedule.last_taken = None, now
        return found


def is_crash_loop(starts: list[float], now: float) -> bool:
    return sum(1 for at in starts if now - at < CRASH_LOOP_SECONDS) >= CRASH_LOOP_STARTS


def not_before(last_taken: float | None, now: float) -> float:
    """The first moment, from `now` on, that keeps its distance from the last look."""
    return now if last_taken is None else max(now, last_taken + SPACING_SECONDS)
