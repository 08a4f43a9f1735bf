"""What a verdict is judged on: a view, a moment, and the questions that the steps ask of both.

`controlplane.health.judge` and `controlplane.health.terminal_status` hold the steps. `T` is the trigger interval, `B` the
95th percentile of the batch durations known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from controlplane.health import lag
from controlplane.health.formatting import span
from controlplane.health.thresholds import Thresholds
from controlplane.model import ENDING_TRIGGERS, ProgressSample, QueryView, Run, StatusSample


@dataclass(frozen=True)
class QueryContext:
    """A view at a moment. `batches` are the newest run's, oldest first.

    `listening_since`: when this server began to listen; silence before that says nothing of an agent.
    """

    view: QueryView
    now: float
    limits: Thresholds
    batches: list[ProgressSample]
    interval: float  # T; 0 where there is none or it is unknown
    listening_since: float = 0.0

    @property
    def run(self) -> Run | None:
        return self.view.run

    @property
    def last(self) -> ProgressSample | None:
        return self.batches[-1] if self.batches else None

    @cached_property
    def usual(self) -> float:
        """B, in seconds."""
        return p95_batch_seconds(self.view)

    @cached_property
    def behind(self) -> float | None:
        """Seconds, as `lag_seconds` has it."""
        return lag.lag_seconds(self.view, self.now)

    @cached_property
    def trails(self) -> tuple[lag.LagWindow, ...]:
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
        return self.view.facts.trigger in ENDING_TRIGGERS

    @property
    def rested_at(self) -> float | None:
        """The newest sign, since the last batch, that a trigger found nothing to do."""
        last = self.last.at if self.last else 0.0
        signs = (self.view.idle_at, _waiting_since(self.view.status))
        return max((at for at in signs if at is not None and at > last), default=None)

    @property
    def heard_at(self) -> float:
        """When the newest run last told of itself: its start, a batch or a rest."""
        started = self.run.started_at if self.run else self.view.first_seen_at
        return max(started, self.last.at if self.last else 0.0, self.rested_at or 0.0)

    @property
    def age(self) -> float:
        """Seconds since then: how long a running batch has run, at most."""
        return self.now - self.heard_at

    @property
    def polled(self) -> StatusSample | None:
        """The last poll, when it is fresh and newer than the last batch or rest."""
        status = self.view.status
        return status if status and self._fresh(status) and status.at > self.heard_at else None

    def _fresh(self, status: StatusSample) -> bool:
        return status.at >= self.now - self.limits.silent_seconds

    @property
    def in_batch(self) -> bool:
        """Whether a batch seems to run: a poll says so, or polls ceased for longer than any batch took."""
        status = self.view.status
        if self.polled is None:
            return status is not None and not self._fresh(status) and self.age > self.hung_after
        return self.polled.trigger_active or self.last is None or bool(self.last.lag_rows)

    @property
    def tasks_quiet(self) -> float | None:
        """Seconds since a task of the batch finished, or since it began; None where tasks are not known."""
        status = self.polled
        if status is None or _tells_no_tasks(status):
            return None
        return self.now - max(self.heard_at, status.last_task_at or 0.0)

    @property
    def long_after(self) -> float:
        return self._longest(self.limits.long_seconds)

    @property
    def hung_after(self) -> float:
        return self._longest(self.limits.hung_seconds)

    def _longest(self, floor: float) -> float:
        return max(floor, self.limits.long_usual * self.usual, self.limits.long_triggers * self.interval)

    @property
    def behind_after(self) -> float:
        return max(self.limits.behind_seconds, self.limits.behind_triggers * self.interval)

    @property
    def last_word_at(self) -> float:
        """When anything of this query's driver was heard last."""
        view = self.view
        told = [view.status.at if view.status else None, view.polled_at, view.idle_at]
        told += [
            view.agent.last_seen_at if view.agent else None,
            view.progress[-1].at if view.progress else None,
        ]
        return max([view.first_seen_at, *(at for at in told if at is not None)])

    @property
    def silent(self) -> bool:
        """Whether the driver says nothing any more, although nobody heard it end."""
        ended = self.view.agent is not None and self.view.agent.ended_at is not None
        since = max(self.last_word_at, self.listening_since)
        return not ended and self.now - since > self.limits.silent_seconds

    def ago(self, at: float) -> str:
        return f"{span(self.now - at)} ago"


def context_at(view: QueryView, now: float, limits: Thresholds, listening_since: float = 0.0) -> QueryContext:
    """The case of a view at `now`, Unix seconds."""
    run_id = view.run.run_id if view.run else None
    own = [s for s in view.progress if run_id is None or s.run_id == run_id]
    interval = _known(view.facts.trigger_interval)
    return QueryContext(view, now, limits, own, interval, listening_since)


def p95_batch_seconds(view: QueryView) -> float:
    """B: the 95th percentile of the batch durations known, in seconds; 0.0 where none is."""
    return percentile((sample.duration for sample in view.progress), 0.95)


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest-rank percentile of the finite values; 0.0 of none."""
    ranked = sorted(v for v in values if math.isfinite(v))
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0.0


def _known(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


def _waiting_since(status: StatusSample | None) -> float | None:
    if status is None or status.trigger_active or status.data_available:
        return None
    return status.at if status.message.startswith("Waiting") else None


def _tells_no_tasks(status: StatusSample) -> bool:
    return status.tasks_active is None and status.tasks_completed is None and status.last_task_at is None
