"""Everything that a verdict depends on: a query's view, the time, and values derived from both.

Used by the steps in `controlplane.health.judge` and `controlplane.health.terminal_status`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.cached_properties import cached_property
from controlplane.driver_model import Outage
from controlplane.health import lag, offset_units
from controlplane.health.formatting import span
from controlplane.health.thresholds import Thresholds
from controlplane.model import ENDING_TRIGGERS, ProgressSample, QueryView, Run, StatusSample
from listeners.protocol import wire

#: Corrected times of events may be this far ahead of the server's clock.
MAX_AHEAD_SECONDS = 60.0


@dataclass(frozen=True)
class QueryContext:
    """A view at `now` (Unix seconds). `batches`: those of the newest run, oldest first.

    `interval`: the trigger interval in seconds, 0 where there is none or it is unknown.
    `listening_since`: when this server started to receive events; earlier silence is not the agent's.
    """

    view: QueryView
    now: float
    limits: Thresholds
    batches: Sequence[ProgressSample]
    interval: float
    listening_since: float = 0.0

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return self.view.run

    @property
    def last(self) -> ProgressSample | None:
        """The last batch of the newest run."""
        return self.batches[-1] if self.batches else None

    @cached_property
    def p95_batch_seconds(self) -> float:
        """The 95th percentile of the known batch durations; 0.0 where none is known."""
        return p95_batch_seconds(self.view)

    @cached_property
    def lag_seconds(self) -> float | None:
        """Age of the oldest unread row, see `controlplane.health.lag.lag_seconds`."""
        return lag.lag_seconds(self.view, self.now)

    @cached_property
    def row_sources(self) -> frozenset[str]:
        """The names of the sources whose offsets count rows."""
        return offset_units.row_sources(self.view.progress)

    @cached_property
    def lag_windows(self) -> tuple[lag.LagWindow, ...]:
        """The recent lag of each source and partition that lags."""
        return tuple(lag.lag_windows(self.batches, self.limits))

    @property
    def active(self) -> bool:
        """Whether the newest run has no known end: neither its own nor its driver's."""
        agent = self.view.agent
        return (
            self.run is not None and self.run.ended_at is None and (agent is None or agent.ended_at is None)
        )

    @property
    def ends_by_itself(self) -> bool:
        """Whether the trigger is availableNow or once."""
        return self.view.facts.trigger in ENDING_TRIGGERS

    @cached_property
    def last_idle_at(self) -> float | None:
        """When a trigger last found no data, if that was after the last batch."""
        last = self.last.at if self.last else 0.0
        signs = (self.view.idle_at, waiting_since(self.view.status))
        return max((at for at in signs if at is not None and at > last), default=None)

    @cached_property
    def last_activity_at(self) -> float:
        """When the newest run last started, reported a batch or reported that it is idle."""
        started = self.run.started_at if self.run else self.view.first_seen_at
        return max(started, self.last.at if self.last else 0.0, self.last_idle_at or 0.0)

    @property
    def activity_age(self) -> float:
        """Seconds since the last activity: an upper limit for the duration of the running batch."""
        return self.now - self.last_activity_at

    @cached_property
    def fresh_status(self) -> StatusSample | None:
        """The last polled status, if it is fresh and newer than the last activity."""
        status = self.view.status
        return status if status and self._is_fresh(status) and status.at > self.last_activity_at else None

    def _is_fresh(self, status: StatusSample) -> bool:
        """Whether it was polled shortly before now, or before the driver fell silent or Spark ceased to answer."""
        missing = max(self.silent_for, self.unanswered_seconds)
        return status.at >= self.now - missing - self.limits.silent_seconds

    @cached_property
    def in_batch(self) -> bool:
        """Whether a batch seems to run: a poll reports it, or polls ceased for longer than any batch took."""
        status = self.view.status
        if self.fresh_status is None:
            outdated = status is not None and not self._is_fresh(status)
            return outdated and self.activity_age > self.stuck_after
        return self.fresh_status.trigger_active or self.last is None or bool(self.last.lag_offsets)

    @property
    def seconds_without_task(self) -> float | None:
        """Seconds for which no task of the batch has finished; None where tasks are unknown.

        Counted from the first poll with the current number of tasks to the last one: what finished before or
        after these is unknown.
        """
        status = self.fresh_status
        if status is None or _lacks_tasks(status):
            return None
        since = max(self.last_activity_at, status.last_task_at or 0.0, status.tasks_since or 0.0)
        return max(0.0, (status.tasks_at or self.now) - since)

    @property
    def busy_after(self) -> float:
        """Seconds after which a batch counts as long."""
        return self._batch_limit(self.limits.busy_seconds)

    @property
    def stuck_after(self) -> float:
        """Seconds after which a batch without a finished task counts as stuck."""
        return self._batch_limit(self.limits.stuck_seconds)

    def _batch_limit(self, floor: float) -> float:
        limits = self.limits
        return max(
            floor, limits.batch_durations * self.p95_batch_seconds, limits.batch_triggers * self.interval
        )

    @property
    def behind_after(self) -> float:
        """Seconds of lag, or of delay, after which a query counts as behind."""
        return max(self.limits.behind_seconds, self.limits.behind_triggers * self.interval)

    @cached_property
    def known_until(self) -> float:
        """Until when the driver's events are known: `now`, or earlier where newer ones must still arrive.

        They arrive late from a driver that sends requests although its newest event is old, and after this server
        was away. At `now` such a driver would seem to have done nothing since.
        """
        late = self.last_contact_at - self.reported_at > self.limits.unresponsive_seconds
        missing = late or self.reported_at < self.listening_since
        return min(self.now, self.reported_at) if missing and self.active and not self.silent else self.now

    @cached_property
    def last_contact_at(self) -> float:
        """When the query's driver last sent an event, or its agent a request."""
        return self._latest([self.reported_at, self.view.agent.contact_at if self.view.agent else None])

    @cached_property
    def reported_at(self) -> float:
        """The time of the newest event of the query's driver."""
        view = self.view
        known = [view.status.at if view.status else None, *view.polls[-1:], view.idle_at]
        known += [
            view.agent.last_seen_at if view.agent else None,
            self.last.at if self.last else None,
        ]
        return self._latest(known)

    def _latest(self, known: Iterable[float | None]) -> float:
        """The latest of these times. What seems to come later than now was noted before the server's clock was set."""
        limit = self.now + MAX_AHEAD_SECONDS
        return max((at for at in known if at is not None and at <= limit), default=self.view.first_seen_at)

    @property
    def silent(self) -> bool:
        """Whether the driver sends nothing any more although it has not reported its end."""
        return self.silent_for > self.limits.silent_seconds

    @cached_property
    def silent_for(self) -> float:
        """Seconds since the last event or heartbeat that this server could receive; 0.0 if the driver ended."""
        ended = self.view.agent is not None and self.view.agent.ended_at is not None
        return 0.0 if ended else self.now - max(self.last_contact_at, self.listening_since)

    @property
    def host_is_fresh(self) -> bool:
        """Whether the load of the host is that of a recent heartbeat."""
        host = self.view.host
        return host is not None and self.now - host.at <= self.limits.silent_seconds

    @property
    def outage(self) -> Outage | None:
        """Why Spark does not answer a driver that sends heartbeats; None if it answers, or may only be slow."""
        outage = self._reported_outage
        return None if outage is None or self._may_be_slow(outage) else outage

    @property
    def unanswered_seconds(self) -> float:
        """Seconds for which Spark has not answered by the last heartbeat, where it may only be slow; else 0.0."""
        outage = self._reported_outage
        return self._waited(outage) if outage is not None and self._may_be_slow(outage) else 0.0

    @property
    def _reported_outage(self) -> Outage | None:
        agent = self.view.agent
        return agent.outage if agent is not None and agent.ended_at is None and not self.silent else None

    def _may_be_slow(self, outage: Outage) -> bool:
        return outage.cause == wire.NO_ANSWER and self._waited(outage) <= self.limits.no_answer_seconds

    def _waited(self, outage: Outage) -> float:
        return min(self.now, outage.seen_at) - outage.since

    @property
    def ended_with_driver(self) -> bool:
        """Whether the newest run has ended because its driver did, not by itself."""
        agent = self.view.agent
        if agent is None or agent.ended_at is None or self.run is None:
            return False
        return self.run.ended_at is None or self.view.ended_by == "app_ended"

    def ago(self, at: float) -> str:
        """`3 min 20 s ago`."""
        return f"{span(self.now - at)} ago"


def context_at(view: QueryView, now: float, limits: Thresholds, listening_since: float = 0.0) -> QueryContext:
    """The context of a view at `now`, Unix seconds."""
    run_id = view.run.run_id if view.run else None
    own = view.progress if run_id is None else _of_run(view.progress, run_id)
    interval = _finite_or_zero(view.facts.trigger_interval)
    return QueryContext(view, now, limits, own, interval, listening_since)


def _of_run(samples: Sequence[ProgressSample], run_id: str) -> Sequence[ProgressSample]:
    if isinstance(samples, offset_units.RecentProgress) and samples.runs <= {run_id}:
        return samples
    return [sample for sample in samples if sample.run_id == run_id]


def p95_batch_seconds(view: QueryView) -> float:
    """The 95th percentile of the known batch durations, in seconds; 0.0 where none is known."""
    return percentile((sample.duration for sample in view.progress), 0.95)


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest-rank percentile of the finite values; 0.0 without any."""
    ranked = sorted(v for v in values if math.isfinite(v))
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0.0


def _finite_or_zero(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


def waiting_since(status: StatusSample | None) -> float | None:
    """Since when a query waits for data at the latest; None where its status does not show that it does."""
    if status is None or status.trigger_active or status.data_available:
        return None
    return status.at if status.message.startswith("Waiting") else None


def _lacks_tasks(status: StatusSample) -> bool:
    return status.tasks_active is None and status.tasks_completed is None and status.last_task_at is None
