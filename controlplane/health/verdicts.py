"""The current verdict on every query, and since when each status holds; status changes go to the store.

A status is computed again when its query's view has changed or at its deadline (`controlplane.health.deadlines`), and
its sentence, where that holds a growing duration, after `FRESH_SECONDS`. So an unchanged query is judged once, no
matter how many clients ask. Called by the scheduler's tick and the API; calls `controlplane.health.judge`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controlplane.health import deadlines, judge
from controlplane.health.context import QueryContext, context_at
from controlplane.health.listening import ListeningTime
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryStatus, QueryView, Verdict

ENDED = frozenset({QueryStatus.FAILED, QueryStatus.STOPPED, QueryStatus.FINISHED})
#: How long a sentence with a growing duration is shown.
FRESH_SECONDS = 4.0
Views = Callable[[str], QueryView | None]


@dataclass(frozen=True)
class StatusChange:
    """A query took this status at `at`, Unix seconds. `before`: the status recorded until then, if any."""

    query_id: str
    at: float
    status: QueryStatus
    reason: str
    before: QueryStatus | None = None

    def row(self) -> dict[str, object]:
        """The change as the store keeps it."""
        return {"query_id": self.query_id, "at": self.at, "status": self.status.value, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class QueryVerdict:
    """A verdict with what it was computed from. Compared by identity, so it can be a cache key.

    `view`: the view that was to be judged; that of the context may know of a later heartbeat. `status_until` and
    `until`: until when the status and the whole verdict hold for this view, Unix seconds.
    """

    view: QueryView
    context: QueryContext
    verdict: Verdict
    status_until: float
    until: float

    @property
    def at(self) -> float:
        """When it was judged, Unix seconds."""
        return self.context.now

    def holds(self, view: QueryView, now: float) -> bool:
        """Whether the verdict is still valid for this view at `now`."""
        return self.view is view and self.at <= now < self.until

    def status_holds(self, view: QueryView, now: float) -> bool:
        """Whether at least its status is."""
        return self.view is view and self.at <= now < self.status_until


def _no_view(query_id: str) -> None:
    return None


class VerdictLog:
    """The verdict on every query, and its last recorded status. Thread-safe."""

    def __init__(self, listening: ListeningTime | None = None, views: Views = _no_view) -> None:
        """`views`: `Window.view`."""
        self._listening, self._views = listening or ListeningTime(), views
        self._listening_since = 0.0
        self._lock = threading.Lock()
        self._recorded: dict[str, tuple[QueryStatus, float]] = {}
        self._verdicts: dict[str, QueryVerdict] = {}
        #: Verdicts computed since the start, and seconds of the last `changes`; None before the first.
        self.judged = 0
        self.seconds: float | None = None

    def load(self, changes: Iterable[StatusChange]) -> None:
        """Take over the last recorded change of each query from the store."""
        with self._lock:
            for change in changes:
                self._recorded[change.query_id] = (change.status, change.at)
                self._verdicts.pop(change.query_id, None)

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
        self._note_pause(now)
        return self._verdict_of(view, now)

    def status_of(self, view: QueryView, now: float) -> QueryVerdict:
        """A verdict whose status is as of `now`; the figures of its sentence may be older."""
        self._note_pause(now)
        return self._with_status(view, now)

    def _verdict_of(self, view: QueryView, now: float) -> QueryVerdict:
        known = self._verdicts.get(view.query_id)
        if known is None or not known.holds(view, now):
            known = self._verdicts[view.query_id] = self._judged(view, now)
        return known

    def _with_status(self, view: QueryView, now: float) -> QueryVerdict:
        known = self._verdicts.get(view.query_id)
        return known if known is not None and known.status_holds(view, now) else self._verdict_of(view, now)

    def _note_pause(self, now: float) -> None:
        """Judge every query anew when silence counts from another time."""
        since = self._listening.since(now)
        if since != self._listening_since:
            with self._lock:
                self._listening_since = since
                self._verdicts.clear()

    def _judged(self, view: QueryView, now: float) -> QueryVerdict:
        self.judged += 1
        listening = self._silence_counts_from(view)
        context = context_at(view, now, DEFAULTS, listening)
        known = self._verdicts.get(view.query_id)
        due = known is not None and known.view is view  # its time is over: has anything been received since?
        if due or context.silent_for > DEFAULTS.unresponsive_seconds or context.known_until < now:
            newest = self._views(view.query_id)
            if newest is not None and newest is not view:
                context = context_at(newest, now, DEFAULTS, listening)
        verdict = judge.judge_context(context)
        status_until = deadlines.next_change(context)
        if context.known_until < now:  # until an event shows otherwise, which may be no news of the view
            status_until = min(status_until, now + FRESH_SECONDS)
        until = max(deadlines.next_wording(context, verdict), min(status_until, now + FRESH_SECONDS))
        return QueryVerdict(view, context, verdict, status_until, until)

    def _silence_counts_from(self, view: QueryView) -> float:
        """Since when silence counts: a query that was lost stays lost over a restart until its driver reports."""
        recorded = self._recorded.get(view.query_id)
        return 0.0 if recorded and recorded[0] is QueryStatus.LOST else self._listening_since

    def all(self, views: Iterable[QueryView], now: float) -> Mapping[str, Verdict]:
        """Verdicts by query id: each status as of `now`; the figures of a sentence may be older."""
        self._note_pause(now)
        return {view.query_id: self._with_status(view, now).verdict for view in views}

    def since(self, query_id: str, status: QueryStatus, now: float) -> float:
        """When this status began; `now` if it is not recorded yet."""
        known = self._recorded.get(query_id)
        return known[1] if known and known[0] == status else now

    def changes(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """Statuses that differ from the recorded ones. `views` are all views; other queries leave the cache."""
        began, views = time.perf_counter(), list(views)
        for gone in self._verdicts.keys() - {view.query_id for view in views}:
            self._verdicts.pop(gone, None)
        found = self.changes_of(views, now)
        self.seconds = time.perf_counter() - began
        return found

    def changes_of(self, views: Iterable[QueryView], now: float) -> list[StatusChange]:
        """The same for some of the queries, right after an event of theirs."""
        self._note_pause(now)
        return [change for view in views if (change := self._change(view, now)) is not None]

    def _change(self, view: QueryView, now: float) -> StatusChange | None:
        recorded, since = self._recorded.get(view.query_id, (None, 0.0))
        verdict = self._with_status(view, now).verdict
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
