"""Resolve the runs of a query after a group of events: which is the newest, which have ended, what is
counted.

Called by `controlplane.events.lifecycle.apply_events` for each query that its events concern. Pure. The
strongest evidence of an end counts: Spark's own event, else the end of the driver, else a later run that
replaced it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from controlplane.events import gaps
from controlplane.events.agent_host import last_contact
from controlplane.events.clocks import MAX_DELAY_SECONDS
from controlplane.health.failures import explain
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import ENDING_TRIGGERS, Agent, Run, RunEnd
from controlplane.records import AgentRow, QueryNaming, QueryRow, RunRow, UnitOfWork, changed
from listeners.protocol import wire

#: Limit of counters for one query; their labels come from agents.
MAX_TOTALS = 300
#: Ends that show only when a later run has begun: in the same driver, or in another driver that replaced it.
INFERRED = ("superseded", "lost")
#: How long before the end of a driver a signal to it may have ended a query. A liveness probe that ends a driver because
#: a query failed takes longer: 30 s by default.
SIGNAL_SECONDS = 10.0
JVM_ENDED = "The driver's JVM has ended."


def resolve_runs(
    unit: UnitOfWork, query_id: str, rows: list[RunRow], now: float, listening_since: float = 0.0
) -> None:
    """Determine the newest run, end the older ones that were never reported as ended, and add up the counts.

    `listening_since`: when this server started; earlier silence of a driver is not the driver's.
    """
    query, trigger = unit.queries[query_id], None
    silent = {row.run.agent: _silence(unit, row, now, listening_since) for row in rows}
    newest = _newest(unit, rows, query.newest_run, silent)
    for row in rows:
        _put_end(unit, row, _ended_by(unit, row, newest, now, silent))
    if newest is not None:
        back = query.retired_at is not None and newest.started_at > query.retired_at
        query = with_naming(query, unit.runs[newest.run_id].naming)
        if back or query.newest_run != newest.run_id:
            query = changed(query, newest_run=newest.run_id, retired_at=None if back else query.retired_at)
        trigger = unit.runs[newest.run_id].facts.trigger
    reported, unreported = gaps.count_overdue(query.reported, now, trigger)
    if unreported:
        unit.count(query_id, "batches_unreported", unreported)
    counts = unit.counts.pop(query_id, None)
    if counts or reported is not query.reported:
        query = changed(query, reported=reported, totals=_added(query.totals, counts or {}))
    unit.put_query(query)


def _silence(unit: UnitOfWork, row: RunRow, now: float, listening_since: float) -> float:
    """Seconds without a contact of the run's agent while this server listened."""
    return now - max(last_contact(unit.agents[row.run.agent].agent, now), listening_since)


def _newest(
    unit: UnitOfWork, rows: Iterable[RunRow], recorded: str | None, silent: Mapping[str, float]
) -> Run | None:
    """The newest run: of each agent the one that it reported last, and of these the one that started last.

    The times of one agent's events may be corrected differently, as its clock becomes better known; their
    sequence numbers cannot be wrong. `recorded`: the newest run until now.
    """
    last: dict[str, RunRow] = {}
    for row in rows:
        known = last.get(row.run.agent)
        if known is None or _order_in_agent(row) > _order_in_agent(known):
            last[row.run.agent] = row
    newest = max(last.values(), key=_start, default=None)
    if newest is None or _is_alive(unit, newest, silent):
        return newest.run if newest is not None else None
    # The clock of a driver may be a minute behind before that is known, and the server's may have been ahead: the run
    # that was reported later is the newer one if it is active while this one is not.
    behind = [
        row
        for row in last.values()
        if row is not newest
        and _arrival(row) > _arrival(newest)
        and (row.run.run_id == recorded or _is_alive(unit, row, silent))
    ]
    return max(behind, key=_start, default=newest).run


def _start(row: RunRow) -> tuple[float, str]:
    return row.run.started_at, row.run.run_id


def _arrival(row: RunRow) -> float:
    """Orders runs by their first event that the server stored; a run of this group of events is the last."""
    return row.run.key or math.inf


def _is_alive(unit: UnitOfWork, row: RunRow, silent: Mapping[str, float]) -> bool:
    """Whether a run has no end and its driver has missed fewer than three heartbeats."""
    over = row.run.ended_at is not None or unit.agents[row.run.agent].agent.ended_at is not None
    return not over and silent[row.run.agent] <= DEFAULTS.unresponsive_seconds


def _order_in_agent(row: RunRow) -> tuple[int, float, str]:
    return row.first_seq or 0, row.run.started_at, row.run.run_id


def with_naming(query: QueryRow, naming: QueryNaming | None) -> QueryRow:
    """The query with this name, app and labels; unchanged for None."""
    if naming is None or (naming.at, naming.app, naming.name, naming.labels) == _naming_of(query):
        return query
    return changed(query, app=naming.app, name=naming.name, labels=naming.labels, described_at=naming.at)


def _naming_of(query: QueryRow) -> tuple[object, ...]:
    return query.described_at, query.app, query.name, query.labels


def _added(totals: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, float]:
    added = dict(totals)
    for name, count in counts.items():
        if name in added or len(added) < MAX_TOTALS:
            added[name] = added.get(name, 0) + count
    return added


def _ended_by(
    unit: UnitOfWork, row: RunRow, newest: Run | None, now: float, silent: Mapping[str, float]
) -> str | None:
    """The strongest evidence that a run has ended; None while it may be active."""
    if row.ended_by == "terminated":
        return row.ended_by
    agent = unit.agents[row.run.agent].agent
    outlives = outlives_agent(unit.agents[row.run.agent], row.run.run_id)
    # The times of one agent's events may be corrected differently: the last may seem to be before an earlier one.
    if (
        not outlives
        and agent.ended_at is not None
        and min(row.last_event_at, now) <= agent.ended_at + MAX_DELAY_SECONDS
    ):
        return "app_ended"
    over = row.ended_by if row.run.ended_at is not None else None
    if over is not None or newest is None or row.run.run_id == newest.run_id:
        return over
    # One driver never runs a query twice at a time. Two drivers may, and that must stay visible.
    if newest.agent == row.run.agent or outlives:
        return "superseded"
    return "lost" if silent[row.run.agent] > DEFAULTS.silent_seconds else None


def outlives_agent(row: AgentRow, run_id: str) -> bool:
    """Whether a run was active when its agent ended, and does not end with it.

    So after `detach` in a program that goes on, and after the end of a Spark Connect client, whose queries run in
    the server.
    """
    ended = row.info.get("app_ended") if row.agent.ended_at is not None else None
    return ended is not None and run_id in ended["activeRuns"]


def _put_end(unit: UnitOfWork, row: RunRow, ended_by: str | None) -> None:
    run, agent = row.run, unit.agents[row.run.agent]
    if ended_by == "app_ended":
        if agent.agent.ended_at is None:
            return  # the driver is active again; the recorded end stays
        failed = agent.agent.end_reason in wire.FAILED_REASONS
        text = _failure_of_driver(agent) if failed else None
        ended_at = max(agent.agent.ended_at, row.last_event_at)
        run = changed(run, ended_at=ended_at, failure_text=text, error_class=None)
        end = RunEnd.FAILED if failed else RunEnd.STOPPED
    elif ended_by in INFERRED:
        run, end = changed(run, ended_at=run.ended_at or row.last_event_at), RunEnd.LOST
    elif ended_by == "terminated":
        finished = RunEnd.FINISHED if row.facts.trigger in ENDING_TRIGGERS else RunEnd.STOPPED
        failed = run.failure_text is not None or run.error_class is not None
        end = RunEnd.FAILED if failed and not _ended_by_signal(run, agent.agent) else finished
    else:
        return
    if (end, ended_by) != (row.run.end, row.ended_by) or run != row.run:
        ended = changed(row, run=changed(run, end=end), ended_by=ended_by)
        kind = failure_kind(ended)
        if kind is not None and failure_kind(row) is None:
            unit.count(run.query_id, f"failures|{kind}")
        unit.put_run(ended)


def _failure_of_driver(agent: AgentRow) -> str | None:
    """The program's exception; not that of a program whose JVM had ended, which follows from it."""
    return JVM_ENDED if agent.agent.end_reason == wire.JVM_EXITED else agent.end_exception


def _ended_by_signal(run: Run, agent: Agent) -> bool:
    """Whether a signal ended the driver right after the run.

    Ctrl-C cancels the jobs of PySpark, and SIGTERM ends the JVM: queries then fail, although a person or a
    scheduler ended them. An interruption never gives an error that every further try meets.
    """
    if explain(run.failure_text or "", run.error_class).retry == "never":
        return False
    if agent.ended_at is None or run.ended_at is None or agent.end_reason not in wire.SIGNAL_REASONS:
        return False
    return agent.ended_at - run.ended_at <= SIGNAL_SECONDS


def failure_kind(row: RunRow) -> str | None:
    """The kind under which a run counts as a failure of its query; None if it does not count.

    A driver that was replaced without reporting an end was killed. The end of a superseded run may still
    arrive.
    """
    if row.run.end is RunEnd.FAILED:
        return explain(row.run.failure_text or "", row.run.error_class).kind
    return "lost" if row.ended_by == "lost" else None


def count_failure(unit: UnitOfWork, query_id: str, text: str | None, error_class: str | None = None) -> None:
    """Count a failure under its kind as first known. It is never revoked: a counter does not decrease."""
    unit.count(query_id, f"failures|{explain(text or '', error_class).kind}")
