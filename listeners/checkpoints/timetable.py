"""When to take a query's checkpoint inventory: after the first progress of a run and after its end.

Only decides: `now` is an argument, in monotonic seconds. Called by `listeners.checkpoints.inventories`.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import NamedTuple

#: Delay after a start, unless the run reports a batch or an idle trigger before.
START_DELAY_SECONDS = 30.0
#: Minimum time between two inventories of one query if no run ended between them.
SPACING_SECONDS = 60.0
#: This many starts within this time are a crash loop: then only failures are inventoried, once a minute.
CRASH_LOOP_STARTS = 3
CRASH_LOOP_SECONDS = 300.0
MAX_QUERIES = 200


class Due(NamedTuple):
    """An inventory to take: time, query, run and reason."""

    at: float
    query_id: str
    run_id: str
    reason: str


@dataclass
class _QuerySchedule:
    """Recent starts, the last inventory and the next one of one query."""

    starts: list[float] = field(default_factory=list)
    last_taken: float | None = None
    due: Due | None = None


class Timetable:
    """Due inventories of all queries. `skipped` counts those left out because of a crash loop."""

    def __init__(self) -> None:
        self.skipped = 0
        self._schedules: collections.OrderedDict[str, _QuerySchedule] = collections.OrderedDict()

    def started(self, query_id: str, run_id: str, now: float) -> None:
        """A run has started: schedule an inventory, unless the query is in a crash loop."""
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
        """Whether an inventory of this query is scheduled. Cheap: called for every event."""
        schedule = self._schedules.get(query_id)
        return schedule is not None and schedule.due is not None

    def progressed(self, query_id: str, run_id: str, now: float) -> None:
        """The run has reported a batch or an idle trigger: its inventory is due now."""
        schedule = self._schedules.get(query_id)
        if schedule is not None and schedule.due is not None and schedule.due.run_id == run_id:
            schedule.due = schedule.due._replace(
                at=min(schedule.due.at, not_before(schedule.last_taken, now))
            )

    def ended(self, query_id: str, run_id: str, failed: bool, now: float) -> None:
        """The run has ended or failed to start.

        If it is not the newest run, the newer run's inventory stays due.
        """
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
        """When the next inventory is due; None if none is scheduled."""
        return min((schedule.due.at for schedule in self._schedules.values() if schedule.due), default=None)

    def take(self, now: float) -> Due | None:
        """Remove and return the first inventory that is due by `now`; None if there is none."""
        found = min((schedule.due for schedule in self._schedules.values() if schedule.due), default=None)
        if found is None or found.at > now:
            return None
        schedule = self._schedules[found.query_id]
        schedule.due, schedule.last_taken = None, now
        return found


def is_crash_loop(starts: list[float], now: float) -> bool:
    """Whether there were CRASH_LOOP_STARTS starts within CRASH_LOOP_SECONDS."""
    return sum(1 for at in starts if now - at < CRASH_LOOP_SECONDS) >= CRASH_LOOP_STARTS


def not_before(last_taken: float | None, now: float) -> float:
    """The earliest time from `now` on that keeps the minimum interval since the last inventory."""
    return now if last_taken is None else max(now, last_taken + SPACING_SECONDS)
