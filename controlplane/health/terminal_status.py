"""Verdicts on queries that do not run: put away, being started again, ended, or out of hearing.

Each step answers a verdict or None: not mine. `controlplane.health.judge` asks them in order, first of all.
"""

from __future__ import annotations

from controlplane.health.context import QueryContext
from controlplane.health.failures import explain, headline
from controlplane.health.formatting import clock, span
from controlplane.model import ENDING_TRIGGERS, Failure, QueryStatus, Run, RunEnd, Verdict

_ENDS = {
    RunEnd.FAILED: (QueryStatus.FAILED, "failed"),
    RunEnd.FINISHED: (QueryStatus.FINISHED, "read all that was there and finished"),
    RunEnd.STOPPED: (QueryStatus.STOPPED, "stopped"),
    RunEnd.LOST: (QueryStatus.LOST, "its driver went away without a word"),
}


def retired(case: QueryContext) -> Verdict | None:
    """Put away by somebody, and not started since."""
    at = case.view.retired_at
    if at is None or (case.run is not None and case.run.started_at > at):
        return None
    return Verdict(QueryStatus.RETIRED, f"somebody put it away at {clock(at, case.now)}")


def restarting(case: QueryContext) -> Verdict | None:
    """Its run has ended and a start or restart of it is under way."""
    action = case.view.action
    if case.active or action is None or action.state.final or action.action not in ("start", "restart"):
        return None
    asked = f"{action.actor} asked for a {action.action} {case.ago(action.requested_at)}"
    return Verdict(QueryStatus.RESTARTING, f"{asked}; the action is {action.state}")


def start_failed(case: QueryContext) -> Verdict | None:
    """The last thing that happened to it is a start that failed."""
    at = _start_failed_at(case)
    if at is None:
        return None
    told = f"its start failed {case.ago(at)}: {_cause(case.view.start_failure)}"
    return Verdict(QueryStatus.FAILED, told + _doctor_note(case))


def failure(case: QueryContext) -> Failure:
    """What a query in the status *failed* failed of: its last start, where that came last, else its run."""
    if case.run is None or _start_failed_at(case) is not None:
        return explain(case.view.start_failure or "")
    return explain(case.run.failure_text or "", case.run.error_class)


def _start_failed_at(case: QueryContext) -> float | None:
    at = case.view.start_failed_at
    return None if at is None or case.active or at < _ended_at(case) else at


def _ended_at(case: QueryContext) -> float:
    """When the newest run ended, by itself or with its driver; 0.0 where there is no run."""
    run, agent = case.run, case.view.agent
    if run is None:
        return 0.0
    return run.ended_at or (agent.ended_at if agent and agent.ended_at else run.started_at)


def ended(case: QueryContext) -> Verdict | None:
    """Its run has ended, or its driver has around it. Silence afterwards is told but changes nothing."""
    if case.run is None or case.active:
        return None
    status, words = _ENDS[_end(case.run, case)]
    told = f"{words} {case.ago(_ended_at(case))}{_after_batch(case.run)}"
    if status is QueryStatus.FAILED:
        told += f": {_cause(case.run.failure_text, case.run.error_class)}{_doctor_note(case)}"
    return Verdict(status, told + _silence_note(case))


def _end(run: Run, case: QueryContext) -> RunEnd:
    agent = case.view.agent
    if run.end is not None:
        return run.end
    if run.failure_text or (agent is not None and agent.end_reason == "exception"):
        return RunEnd.FAILED
    by_itself = run.ended_at is not None and case.view.facts.trigger in ENDING_TRIGGERS
    return RunEnd.FINISHED if by_itself else RunEnd.STOPPED


def _cause(text: str | None, error_class: str | None = None) -> str:
    """The name of a failure and the first words of the advice on it."""
    if not text and not error_class:
        return "its driver gave no exception"
    told = explain(text, error_class)
    return f"{headline(told)}; {told.advice.partition('. ')[0].rstrip('.')}"


def _doctor_note(case: QueryContext) -> str:
    """What the doctor found broken in its checkpoint, as of this run or later."""
    seen, run = case.view.checkpoint, case.run
    if seen is None or not seen.foretold or (run is not None and seen.taken_at < run.started_at):
        return ""
    return f". The doctor finds its checkpoint broken: {seen.foretold[:300]}"


def _after_batch(run: Run) -> str:
    return "" if run.last_batch_id is None else f" after batch {run.last_batch_id}"


def _silence_note(case: QueryContext) -> str:
    return f"; its agent is silent for {span(case.now - case.last_word_at)}" if case.silent else ""


def lost_contact(case: QueryContext) -> Verdict | None:
    """It should run, but its driver says nothing."""
    if not case.silent:
        return None
    quiet = span(case.now - case.last_word_at)
    return Verdict(QueryStatus.LOST, f"nothing was heard from its agent for {quiet}; it beats every 10 s")


def never_ran(case: QueryContext) -> Verdict | None:
    """Known by name only."""
    return None if case.run else Verdict(QueryStatus.STARTING, "no run of it has been seen yet")


def disappeared(case: QueryContext) -> Verdict | None:
    """Its driver lives and lists its queries, and this one is no longer among them."""
    polled_at, status = case.view.polled_at, case.view.status
    seen = max(case.heard_at, status.at if status else 0.0)
    if polled_at is None or polled_at - seen < case.limits.vanished_seconds:
        return None
    return Verdict(QueryStatus.LOST, f"vanished: its driver no longer lists it; last seen {case.ago(seen)}")
