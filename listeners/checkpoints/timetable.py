"""When to take a query's checkpoint inventory: after the first progress of a run and after its end.

Between these the logs alone (offsets/ and commits/) are read while batches are committed. Only decides: `now`
is an argument, in monotonic seconds. Called by `listeners.checkpoints.inventories`.
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
#: The logs of a query are read this long after its last inventory or reading, if it has committed a batch since.
LOGS_SECONDS = 60.0
#: Minimum time between two readings of logs in a driver: ten a minute, and a twentieth of the time at most.
LOGS_SPACING_SECONDS = 6.0
LOGS_SPACING_FACTOR = 20.0
#: The reason of a reading of the logs.
RUNNING = "running"


class Due(NamedTuple):
    """An inventory to take: time, query, run and reason."""

    at: float
    query_id: str
    run_id: str
    reason: str


@dataclass
class _QuerySchedule:
    """Recent starts, the last inventory and the next one of one query.

    `logs_run`: the run whose logs may be read from `logs_from` on. `committed`: it has reported a batch since the
    last inventory or reading.
    """

    starts: list[float] = field(default_factory=list)
    last_taken: float | None = None
    due: Due | None = None
    logs_run: str | None = None
    logs_from: float = 0.0
    committed: bool = False


class Timetable:
    """Due inventories of all queries. `skipped` counts those left out because of a crash loop."""

    def __init__(self) -> None:
        self.skipped = 0
        self._next_logs_at = 0.0
        self._schedules: collections.OrderedDict[str, _QuerySchedule] = collections.OrderedDict()

    def started(self, query_id: str, run_id: str, now: float) -> None:
        """A run has started: schedule an inventory, unless the query is in a crash loop."""
        schedule = self._schedule(query_id)
        schedule.starts = [
            *[at for at in schedule.starts if now - at < CRASH_LOOP_SECONDS][1 - CRASH_LOOP_STARTS :],
            now,
        ]
        schedule.due = schedule.logs_run = None
        if is_crash_loop(schedule.starts, now):
            self.skipped += 1
        else:
            schedule.due = Due(
                not_before(schedule.last_taken, now + START_DELAY_SECONDS), query_id, run_id, "started"
            )

    def waits_for(self, query_id: str, committed: bool, now: float) -> bool:
        """Whether `progressed` has anything to do for an event of this query. Cheap: called for every event.

        `committed`: the event reports a batch.
        """
        schedule = self._schedules.get(query_id)
        if schedule is None:
            return False
        schedule.committed = schedule.committed or committed
        return schedule.due is not None or self._may_read_logs(schedule, now)

    def _may_read_logs(self, schedule: _QuerySchedule, now: float) -> bool:
        return schedule.logs_run is not None and schedule.committed and now >= schedule.logs_from

    def progressed(self, query_id: str, run_id: str, now: float) -> None:
        """The run has reported a batch or an idle trigger: its inventory, or a reading of its logs, is due."""
        schedule = self._schedules.get(query_id)
        if schedule is None:
            return
        if schedule.due is None:
            if schedule.logs_run == run_id and self._may_read_logs(schedule, now):
                at = max(now, self._next_logs_at)
                self._next_logs_at = at + LOGS_SPACING_SECONDS
                schedule.due = Due(at, query_id, run_id, RUNNING)
        elif schedule.due.run_id == run_id and schedule.due.reason != RUNNING:
            schedule.due = schedule.due._replace(
                at=min(schedule.due.at, not_before(schedule.last_taken, now))
            )

    def taken(self, due: Due, seconds: float, now: float) -> None:
        """An inventory or a reading of logs has succeeded and took `seconds`."""
        schedule = self._schedules.get(due.query_id)
        if schedule is None or due.reason not in ("started", RUNNING):
            return
        schedule.logs_run, schedule.logs_from = due.run_id, now + LOGS_SECONDS
        if due.reason == RUNNING:
            self._next_logs_at = max(self._next_logs_at, now + LOGS_SPACING_FACTOR * seconds)

    def ended(self, query_id: str, run_id: str, failed: bool, now: float) -> None:
        """The run has ended or failed to start.

        If it is not the newest run, the newer run's inventory stays due.
        """
        schedule = self._schedule(query_id)
        if schedule.logs_run == run_id:
            schedule.logs_run = None
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
        schedule.due, schedule.committed, schedule.logs_run = None, False, None
        if found.reason != RUNNING:
            schedule.last_taken = now
        return found


def is_crash_loop(starts: list[float], now: float) -> bool:
    """Whether there were CRASH_LOOP_STARTS starts within CRASH_LOOP_SECONDS."""
    return sum(1 for at in starts if now - at < CRASH_LOOP_SECONDS) >= CRASH_LOOP_STARTS


def not_before(last_taken: float | None, now: float) -> float:
    """The earliest time from `now` on that keeps the minimum interval since the last inventory."""
    return now if last_taken is None else max(now, last_taken + SPACING_SECONDS)
