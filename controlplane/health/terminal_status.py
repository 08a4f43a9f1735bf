"""Verdicts on queries that do not run: retired, being started, failed, ended, or out of contact.

Each step returns a verdict, or None if it does not apply. `controlplane.health.judge` runs them first, in
order.
"""

from __future__ import annotations

from controlplane.health import polls
from controlplane.health.checkpoint_drivers import names_going_on
from controlplane.health.context import QueryContext
from controlplane.health.failures import explain, headline
from controlplane.health.formatting import clock, span
from controlplane.health.host import EXPLAINS_SECONDS, overload_near, overload_sentence
from controlplane.health.run_failure import failure_of_run
from controlplane.model import (
    ENDING_TRIGGERS,
    Action,
    ActionState,
    Failure,
    QueryStatus,
    Run,
    RunEnd,
    Verdict,
)

_STATUS = {
    RunEnd.FAILED: QueryStatus.FAILED,
    RunEnd.FINISHED: QueryStatus.FINISHED,
    RunEnd.STOPPED: QueryStatus.STOPPED,
    RunEnd.LOST: QueryStatus.LOST,
}
_PROGRESS = {
    ActionState.REQUESTED: "not delivered to the driver yet",
    ActionState.DELIVERED: "delivered to the driver",
    ActionState.RUNNING: "in progress",
}


def retired(context: QueryContext) -> Verdict | None:
    """Retired by a person, and not started since."""
    at = context.view.retired_at
    if at is None or (context.run is not None and context.run.started_at > at):
        return None
    return Verdict(QueryStatus.RETIRED, f"Retired at {clock(at, context.now)}.")


def restarting(context: QueryContext) -> Verdict | None:
    """The run has ended and an action that starts the query is open."""
    action = context.view.action
    if context.active or action is None or action.state.final or action.action not in ("start", "restart"):
        return None
    return Verdict(QueryStatus.RESTARTING, _request(action, context))


def _request(action: Action, context: QueryContext) -> str:
    finding = "Restarting" if action.action == "restart" else "Starting"
    requested = f"requested by {action.actor} {context.ago(action.requested_at)}"
    return f"{finding}: {requested}, {_PROGRESS[action.state]}."


def start_failed(context: QueryContext) -> Verdict | None:
    """The query's latest event is a failed start."""
    at = _start_failed_at(context)
    if at is None:
        return None
    reason = f"Failed to start {context.ago(at)}: {_cause(failure(context))}{checkpoint_note(context)}"
    return Verdict(QueryStatus.FAILED, reason)


def failure(context: QueryContext) -> Failure:
    """The cause of the status *failed*: of the last start if that failed last, else of the newest run."""
    view, start_failed_at = context.view, _start_failed_at(context)
    if context.run is None or start_failed_at is not None:
        return explain(view.start_failure or "", None, overload_near(view.overload, start_failed_at or 0.0))
    return failure_of_run(context.run, view.change, view.overload)


def _start_failed_at(context: QueryContext) -> float | None:
    at = context.view.start_failed_at
    return None if at is None or context.active or at < _ended_at(context) else at


def _ended_at(context: QueryContext) -> float:
    """When the newest run ended, by itself or with its driver; 0.0 without a run."""
    run, agent = context.run, context.view.agent
    if run is None:
        return 0.0
    return run.ended_at or (agent.ended_at if agent and agent.ended_at else run.started_at)


def ended(context: QueryContext) -> Verdict | None:
    """The run has ended, or its driver has. Later silence is mentioned and changes nothing."""
    if context.run is None or context.active:
        return None
    end = _end(context.run, context)
    reason = _end_reason(end, context.run, context)
    if names := names_going_on(context.view, context.now):
        reason += f" Another driver goes on with the query: {names}."
    return Verdict(_STATUS[end], reason + _silence(context))


def _end_reason(end: RunEnd, run: Run, context: QueryContext) -> str:
    when = context.ago(_ended_at(context))
    after = "" if run.last_batch_id is None else f" after batch {run.last_batch_id}"
    if end is RunEnd.FAILED:
        found = failure(context)
        if names_going_on(context.view, context.now):  # the advice to stop a driver is not for that one
            return f"Failed {when}{after}: {headline(found).rstrip('.')}."
        return f"Failed {when}{after}: {_cause(found)}{checkpoint_note(context)}"
    if end is RunEnd.FINISHED:
        return f"Finished: processed all available data{_batches(run)}."
    if end is RunEnd.LOST:
        return f"Lost: the run ended {when}{after} without a report from its driver."
    return f"Stopped {when}{after}."


def _batches(run: Run) -> str:
    first, last = run.first_batch_id, run.last_batch_id
    if last is None:
        return ""
    return f" in batch {last}" if first in (None, last) else f" in batches {first} to {last}"


def _end(run: Run, context: QueryContext) -> RunEnd:
    agent = context.view.agent
    if run.end is not None:
        return run.end
    if run.failure_text or (agent is not None and agent.end_reason == "exception"):
        return RunEnd.FAILED
    by_itself = run.ended_at is not None and context.view.facts.trigger in ENDING_TRIGGERS
    return RunEnd.FINISHED if by_itself else RunEnd.STOPPED


def _cause(found: Failure) -> str:
    """The name of a failure and the first sentence of its advice."""
    if not found.text and not found.condition:
        return "the driver reported no exception."
    return f"{headline(found).rstrip('.')}. {found.advice.partition('. ')[0].rstrip('.')}."


def checkpoint_note(context: QueryContext) -> str:
    """The error in the query's checkpoint as a sentence, if it was inspected during this run or later; else empty."""
    checkpoint, run = context.view.checkpoint, context.run
    if checkpoint is None or not checkpoint.predicted_failure:
        return ""
    if run is not None and checkpoint.taken_at < run.started_at:
        return ""
    return f" The checkpoint is broken: {checkpoint.predicted_failure[:300].rstrip('.')}."


def _silence(context: QueryContext) -> str:
    if not context.silent:
        return ""
    return f" No heartbeat from the driver for {span(context.now - context.last_contact_at)}."


def lost_contact(context: QueryContext) -> Verdict | None:
    """The query should run, but its driver is silent."""
    if not context.silent:
        return None
    quiet = span(context.now - context.last_contact_at)
    of_client = context.view.host is not None and context.view.host.of_client
    sender = "its Spark Connect client" if of_client else "the driver"
    reason = f"Lost: no heartbeat from {sender} for {quiet} (expected every 10 s)."
    reason += " The query may still run in the server." if of_client else ""
    began = context.view.next_driver_at
    if began is not None and began > context.last_contact_at:
        reason += f" Another driver of the application began {context.ago(began)}."
    return Verdict(QueryStatus.LOST, reason + _overload_before(context))


def _overload_before(context: QueryContext) -> str:
    """The overload that the driver reported shortly before it fell silent."""
    seen = context.view.overload
    before = seen is not None and context.last_contact_at - seen.at <= EXPLAINS_SECONDS
    return overload_sentence(seen, was=True) if before else ""


def never_ran(context: QueryContext) -> Verdict | None:
    """Only the query's name is known."""
    return None if context.run else Verdict(QueryStatus.STARTING, "Starting: no run has been reported yet.")


def disappeared(context: QueryContext) -> Verdict | None:
    """The driver is alive and lists its queries, and this one is no longer among them.

    Spark reports an end after the query has left the list, so lists must lack it for as long as that may take.
    A query that starts after a list was taken is not missing from it.
    """
    view, listed = context.view, context.view.polls
    seen = max(context.last_activity_at, view.last_event_at, view.status.at if view.status else 0.0)
    missed_at = polls.first_after(listed, seen)
    if missed_at is None or listed[-1] - missed_at < context.limits.vanished_seconds:
        return None
    finding = "Lost: the driver is alive but the query has disappeared from it"
    return Verdict(QueryStatus.LOST, f"{finding}; last seen {context.ago(seen)}.")
