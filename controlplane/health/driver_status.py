"""The state of a driver, and verdicts that follow from it for a query: the driver has ended, or Spark does not answer.

The end of a driver explains what its queries and its program report afterwards, so it comes before the text of
an exception. Used by `controlplane.health.judge`, the API, the metrics and the guards of actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controlplane.driver_model import FailedDriver, HostLoad, Outage
from controlplane.health import terminal_status
from controlplane.health.context import QueryContext
from controlplane.health.failures import explain, headline
from controlplane.health.formatting import span
from controlplane.health.host import overload
from controlplane.health.thresholds import DEFAULTS, Thresholds
from controlplane.model import Agent, QueryStatus, RunEnd, Verdict
from listeners.protocol import wire

EXCEPTION = "exception"
SESSION_GONE = "session_gone"
CLIENT_FAILED = "client_failed"
#: The kind of the failure of a query that ended with its driver.
DRIVER_GONE_KIND = "driver-gone"
START_APPLICATION = "Start the application; a query cannot be started without its driver."
_ORDERLY = {wire.SIGTERM: "by SIGTERM", wire.SIGINT: "by Ctrl-C"}
_ENDS = {
    wire.SIGTERM: "SIGTERM ended it",
    wire.SIGINT: "Ctrl-C ended it",
    wire.DETACHED: "the program detached the agent",
    wire.JVM_EXITED: "its JVM ended",
    EXCEPTION: "the program ended with an exception",
}


def ended_with_driver(context: QueryContext) -> Verdict | None:
    """The driver ended, and the query with it."""
    agent, run = context.view.agent, context.run
    if agent is None or run is None or not context.ended_with_driver:
        return None
    if context.view.outlives_agent:
        return Verdict(QueryStatus.UNREACHABLE, f"Unreachable: {_end_of_agent(context, agent)}")
    after = "" if run.last_batch_id is None else f" after batch {run.last_batch_id}"
    when = f"{context.ago(agent.ended_at or context.now)}{after}"
    if agent.end_reason in wire.FAILED_REASONS:
        reason = f"Failed {when}: {_failure_of_driver(context)}. {START_APPLICATION}"
        return Verdict(QueryStatus.FAILED, reason + terminal_status.checkpoint_note(context))
    how = _ORDERLY.get(agent.end_reason or "")
    if context.view.next_driver is not None:
        return _next_driver_failed(context, context.view.next_driver)
    return Verdict(
        QueryStatus.STOPPED, f"Stopped {when}" + (f": the driver was ended {how}." if how else ".")
    )


def _next_driver_failed(context: QueryContext, driver: FailedDriver) -> Verdict:
    cause = f" ({headline(explain(driver.exception))})" if driver.exception else ""
    finding = (
        f"Failed {context.ago(driver.ended_at)}: the application was started again, and its driver failed"
    )
    return Verdict(QueryStatus.FAILED, f"{finding} before it started a query{cause}. {START_APPLICATION}")


def _end_of_agent(context: QueryContext, agent: Agent) -> str:
    ago = context.ago(agent.ended_at or context.now)
    if agent.end_reason == wire.DETACHED:
        return f"the program detached its agent {ago}. The query may still run."
    by = {wire.SIGTERM: " (SIGTERM)", wire.SIGINT: " (Ctrl-C)", EXCEPTION: " (exception)"}
    how = by.get(agent.end_reason or "", "")
    return f"its Spark Connect client ended{how} {ago}. The query may still run in the server."


def _failure_of_driver(context: QueryContext) -> str:
    agent, run = context.view.agent, context.run
    if agent is not None and agent.end_reason == wire.JVM_EXITED:
        return "the driver's JVM ended, and its program with it"
    text = run.failure_text if run is not None else None
    cause = f" ({headline(explain(text))})" if text else ""
    return f"the driver ended with an exception{cause}"


def unreachable(context: QueryContext) -> Verdict | None:
    """The driver sends heartbeats, and Spark does not answer in it."""
    outage = context.outage
    if outage is None or context.run is None:
        return None
    return Verdict(
        QueryStatus.UNREACHABLE, f"Unreachable: {outage_sentence(outage, span(context.now - outage.since))}"
    )


def outage_sentence(outage: Outage, age: str) -> str:
    """Since when and why Spark does not answer; begins in lower case."""
    if outage.cause == wire.JVM_EXITED:
        return f"the driver's JVM ended {age} ago, only its Python process still runs. Start the application again."
    if outage.cause == wire.SERVER_AWAY:
        return (
            f"no connection to the Spark Connect server for {age}. "
            "The query runs on if the server does, and is gone if it has ended."
        )
    return f"Spark has not answered for {age}, although the driver sends heartbeats."


def driver_down(context: QueryContext) -> str | None:
    """Why the query is down together with its driver; None if it is not, or for a reason of its own.

    One of `wire.OUTAGE_CAUSES`, `exception`, `session_gone` (a Spark Connect server ended the session), or `client_failed`
    (a Spark Connect client ended with an exception; the query may run on in the server).
    """
    if context.outage is not None:
        return context.outage.cause
    agent, run = context.view.agent, context.run
    if run is None or terminal_status.start_failed(context) is not None:
        return None
    if context.view.outlives_agent:
        return CLIENT_FAILED if agent is not None and agent.end_reason == EXCEPTION else None
    if context.ended_with_driver:
        if context.view.next_driver is not None:
            return EXCEPTION
        reason = agent.end_reason if agent is not None else None
        return reason if reason in wire.FAILED_REASONS else None
    failed = run.end is RunEnd.FAILED and not context.active
    return SESSION_GONE if failed and (run.failure_text or "").startswith(wire.SESSION_GONE) else None


# -- the driver itself -----------------------------------------------------------------------------


class DriverState(StrEnum):
    """Worst first: the order in which a person should look."""

    FAILED = "failed"  # it ended with an exception, or its JVM did
    UNREACHABLE = "unreachable"  # its agent reports that Spark does not answer
    SILENT = "silent"  # no heartbeat
    OVERLOADED = "overloaded"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class DriverVerdict:
    """State and reason of a driver; `reason` is a sentence."""

    state: DriverState
    reason: str


def judge_driver(
    agent: Agent,
    host: HostLoad | None,
    now: float,
    listening_since: float = 0.0,
    limits: Thresholds = DEFAULTS,
) -> DriverVerdict:
    """The state of a driver at `now`, Unix seconds.

    `host`: its load in the last heartbeat. `listening_since`: since when this server could receive heartbeats.
    """
    if agent.ended_at is not None:
        failed = agent.end_reason in wire.FAILED_REASONS
        how = _ENDS.get(agent.end_reason or "", "the program ended")
        state = DriverState.FAILED if failed else DriverState.ENDED
        return DriverVerdict(state, f"Ended {_age(now - agent.ended_at)} ago: {how}.")
    silence = now - max(agent.last_contact_at, listening_since)
    if silence > limits.silent_seconds:
        seen = _age(now - agent.last_contact_at)
        reason = f"No heartbeat for {seen}: the driver has ended without a word, or cannot reach this server."
        return DriverVerdict(DriverState.SILENT, reason)
    if agent.outage is not None:
        sentence = outage_sentence(agent.outage, _age(now - agent.outage.since))
        return DriverVerdict(DriverState.UNREACHABLE, f"{sentence[:1].upper()}{sentence[1:]}")
    fresh = host is not None and now - host.at <= limits.silent_seconds
    if fresh and (why := overload(host)) is not None:
        return DriverVerdict(DriverState.OVERLOADED, f"Its host is overloaded: {why}.")
    return DriverVerdict(DriverState.RUNNING, f"Heartbeat {_age(now - agent.last_contact_at)} ago.")


def _age(seconds: float) -> str:
    return span(max(0.0, seconds))
