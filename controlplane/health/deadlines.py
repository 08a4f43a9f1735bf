"""Until when a verdict holds if nothing more is received. Pure.

Each step of `controlplane.health.judge` compares `now` with a time that its view fixes: "unless its driver reports, lost
at …", "unless a task finishes, stuck at …". `next_change` is the earliest of these times that is still to come. It is a
lower bound: at that time the query is judged again, and not every time changes something. Called by
`controlplane.health.verdicts`; a property test compares it with judging at every moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from controlplane.health import lag
from controlplane.health.context import QueryContext
from controlplane.health.host import overload
from controlplane.model import QueryStatus, Verdict

#: Sums and differences of Unix seconds are rounded to parts of a microsecond.
MARGIN_SECONDS = 0.001
#: Beginnings of sentences without a duration that grows.
TIMELESS = ("Keeping up: ", "Running. ", "Running: no backlog, but ", "Running: epoch ")


def next_change(context: QueryContext) -> float:
    """Unix seconds before which the status does not change; not after `now` where that is unknown."""
    return _first(context, _status_moments(context))


def next_wording(context: QueryContext, verdict: Verdict) -> float:
    """Unix seconds before which the whole verdict does not change; `now` where its sentence holds a growing duration."""
    if context.known_until < context.now:
        return context.now
    timeless = verdict.status is QueryStatus.RUNNING and verdict.reason.startswith(TIMELESS)
    missing = max(context.silent_for, context.unanswered_seconds)
    if not timeless or context.lag_seconds or missing > context.limits.unresponsive_seconds:
        return context.now
    return min(next_change(context), _first(context, _note_moments(context)))


def _first(context: QueryContext, moments: Iterator[float]) -> float:
    first = math.inf
    for at in moments:
        if not math.isfinite(at):
            return context.now
        if at > context.now - MARGIN_SECONDS:
            first = min(first, at)
    return first - MARGIN_SECONDS


def _status_moments(context: QueryContext) -> Iterator[float]:
    limits, view, activity = context.limits, context.view, context.last_activity_at
    yield _last_contact(context) + limits.silent_seconds
    yield activity + context.busy_after
    yield activity + context.stuck_after
    if view.status is not None:
        yield view.status.at + context.unanswered_seconds + limits.silent_seconds
        tasks = (activity, view.status.last_task_at or 0.0, view.status.tasks_since or 0.0)
        yield max(tasks) + limits.quiet_tasks_seconds
    if context.last_idle_at is not None:
        yield context.last_idle_at + max(limits.idle_seconds, limits.batch_triggers * context.interval)
    if view.agent is not None and view.agent.outage is not None:
        yield view.agent.outage.since + limits.no_answer_seconds
    if context.last is not None:
        yield lag.triggered_at(context.last) + context.behind_after
    if context.lag_seconds is not None:
        yield context.now - context.lag_seconds + context.behind_after


def _note_moments(context: QueryContext) -> Iterator[float]:
    """When a sentence beside the finding appears or goes: missed heartbeats or answers, an overload that is over."""
    host, agent, limit = context.view.host, context.view.agent, context.limits.unresponsive_seconds
    yield _last_contact(context) + limit
    if agent is not None and agent.outage is not None:
        yield agent.outage.since + limit
    if host is not None and overload(host) is not None:
        yield host.at + context.limits.silent_seconds


def _last_contact(context: QueryContext) -> float:
    return max(context.last_contact_at, context.listening_since)
