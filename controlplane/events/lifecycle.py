"""Apply events to the rows of agents, queries and runs. Pure.

Called by `controlplane.ingest.deduplication`, which loads the rows before and saves them afterwards. What
follows from all events of a group together is in `controlplane.events.run_resolution`.

Events of one agent arrive in order; those of two agents, of an orphaned spool or of a resend arrive at any time. Therefore
every change is a merge (earliest, latest, strongest): the same events in another order, or twice, give the same rows.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from controlplane.events import gaps, progress
from controlplane.events.parsing import ParsedEvent, query_name
from controlplane.events.quiet import repeated
from controlplane.events.run_resolution import count_failure, resolve_runs, with_naming
from controlplane.health import polls
from controlplane.health.host import host_load, overload
from controlplane.model import Agent, ProgressSample, Run, RunFacts
from controlplane.records import NO_FACTS, AgentRow, QueryNaming, QueryRow, RunRow, UnitOfWork, changed
from listeners.protocol import wire
from listeners.protocol.catalogue import distinct_labels

MAX_FAILURE_CHARS = 64 * 1024
#: Reasons for dropped events come from agents; this bounds how many are kept for one agent.
MAX_REASONS = 30
#: Runs that an agent may report as active at its end.
MAX_ACTIVE_RUNS = 1_000
_UNSTARTED = uuid.UUID("6f2f5a0c-5c0f-5b0e-9c57-0d9b3f6a2b11")


def apply_events(
    unit: UnitOfWork, events: Iterable[ParsedEvent], now: float, listening_since: float = 0.0
) -> None:
    """Apply events to the rows of `unit`, then resolve the runs of every query they concern.

    Call `record_agents` first: it creates the agents' rows. `now`: Unix seconds; `listening_since`: when this server started.
    """
    concerned: set[str] = set()
    for parsed in events:
        handler = HANDLERS.get(parsed.event.type)
        if handler is not None and not parsed.raw:
            handler(unit, parsed)
            _record_batch_id(unit, parsed, now)
        listed = (entry.query_id for entry in parsed.entries if entry.status.run_id not in unit.quiet)
        concerned.update(filter(None, (query_id_of(unit, parsed), *listed)))
    rows_of: dict[str, list[RunRow]] = {}
    for row in unit.runs.values():
        rows_of.setdefault(row.run.query_id, []).append(row)
        if row.run.agent in unit.ended_agents:
            concerned.add(row.run.query_id)
    for query_id in concerned & unit.queries.keys():
        resolve_runs(unit, query_id, rows_of.get(query_id, []), now, listening_since)


def _record_batch_id(unit: UnitOfWork, parsed: ParsedEvent, now: float) -> None:
    if parsed.batch is not None and parsed.query_id is not None:
        query = unit.queries[parsed.query_id]
        reported = gaps.record_report(query.reported, parsed.batch.run_id, parsed.batch.batch_id, now)
        unit.put_query(changed(query, reported=reported))


def record_agents(
    unit: UnitOfWork,
    events: Iterable[wire.Event],
    clock_offsets: Mapping[str, float],
    heartbeats: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Update the row of each sending agent: last seen, highest sequence number, clock offset (seconds).

    `heartbeats`: the time of each agent's last heartbeat by the server's clock alone, so that an agent whose
    clock is wrong, or was just set, does not appear silent.
    """
    by_agent: dict[str, list[wire.Event]] = {}
    for event in events:
        by_agent.setdefault(event.agent, []).append(event)
    for agent, sent in by_agent.items():
        _record_agent(unit, agent, sent, heartbeats.get(agent, 0.0))
    for agent, offset in clock_offsets.items():
        row = unit.agents.get(agent)
        if row is not None and abs(row.agent.clock_offset - offset) > 0.001:
            unit.put_agent(changed(row, agent=changed(row.agent, clock_offset=offset)))


def _record_agent(unit: UnitOfWork, name: str, sent: list[wire.Event], heartbeat_at: float) -> None:
    newest = max(sent, key=lambda event: event.at)
    row = unit.agents.get(name)
    if row is None:
        row = AgentRow(Agent(key=0, agent=name, app=newest.app.name, first_seen_at=newest.at))
    agent, app = row.agent, newest.app
    if newest.at >= row.described_at:
        agent = changed(
            agent,
            app=app.name,
            app_id=app.id or agent.app_id,
            spark_version=app.spark_version or agent.spark_version,
            master=app.master or agent.master,
            ui_url=app.ui_url or agent.ui_url,
            labels=dict(newest.labels),
        )
    agent = changed(
        agent,
        first_seen_at=min(agent.first_seen_at, *(event.at for event in sent)),
        last_seen_at=max(agent.last_seen_at, newest.at, heartbeat_at),
        high_seq=max(agent.high_seq, *(event.seq for event in sent)),
    )
    unit.put_agent(changed(row, agent=agent, described_at=max(row.described_at, newest.at)))


def _on_progress(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    query = _query(unit, parsed.event, parsed.query_id, query_name(parsed.event.data))
    batch = parsed.batch
    row = _on_run(unit, parsed, query, batch_id=batch.batch_id if batch else None, idle=batch is None)
    _name(unit, row, parsed.event, query_name(parsed.event.data))
    if batch is not None:
        _count(unit, query.query_id, batch)


def _on_started(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    query = _query(unit, parsed.event, parsed.query_id, query_name(parsed.event.data))
    row = _on_run(unit, parsed, query)
    row = changed(row, facts=_merged(row.facts, progress.facts(parsed.event.data.get("facts"))))
    _name(unit, row, parsed.event, query_name(parsed.event.data))
    _revive_agent(unit, parsed)


def _on_idle(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    _on_run(unit, parsed, _query(unit, parsed.event, parsed.query_id), idle=True)


def _on_terminated(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    query = _query(unit, parsed.event, parsed.query_id)
    row = _on_run(unit, parsed, query, alive=False)
    if row.ended_by == "terminated" and row.run.ended_at is not None and parsed.event.at >= row.run.ended_at:
        return
    data = parsed.event.data
    run = changed(
        row.run,
        ended_at=parsed.event.at,
        failure_text=progress.text(data.get("exception"), MAX_FAILURE_CHARS),
        error_class=progress.text(data.get("errorClassOnException"), 200),
    )
    unit.put_run(changed(row, run=run, ended_by="terminated"))


def _on_start_failed(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    event, name = parsed.event, query_name(parsed.event.data)
    query_id = query_id_of(unit, parsed)
    if query_id is None:
        return
    query = _query(unit, event, query_id, name)
    has_run = any(row.run.query_id == query_id and row.naming for row in unit.runs.values())
    if not has_run and event.at >= query.described_at:
        query = with_naming(query, _naming(event, name))
        unit.put_query(query)
    failure = progress.text(event.data.get("exception"), MAX_FAILURE_CHARS)
    unit.count(query_id, "starts")
    count_failure(unit, query_id, failure)
    if query.start_failed_at is None or event.at >= query.start_failed_at:
        query = changed(query, start_failed_at=event.at, start_failure=failure)
        unit.put_query(query)


def query_id_of(unit: UnitOfWork, parsed: ParsedEvent) -> str | None:
    """The id of the query that an event is about; a failed start may name the query only by its name."""
    if parsed.query_id is not None or parsed.event.type != "start_failed" or parsed.raw:
        return parsed.query_id
    return _known_by_name(unit, parsed.event.app.name, query_name(parsed.event.data))


def _known_by_name(unit: UnitOfWork, app: str, name: str | None) -> str | None:
    """The id of the query with this name; one that never started gets an id derived from the name."""
    if name is None:
        return None
    named = [row for row in unit.queries.values() if (row.app, row.name) == (app, name)]
    newest = max(named, key=lambda row: row.described_at, default=None)
    return newest.query_id if newest is not None else unstarted_id(app, name)


def unstarted_id(app: str, name: str) -> str:
    """The id of a query that failed before Spark gave it one: derived from its app and name."""
    return str(uuid.uuid5(_UNSTARTED, f"{app}\0{name}"))


def _on_status(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    event = parsed.event
    for entry in parsed.entries:
        if (row := repeated(unit, event, entry)) is not None:
            unit.put_quiet(row)
            continue
        query = _query(unit, event, entry.query_id, entry.name)
        asked = changed(event, at=entry.status.at)
        row = _on_run(unit, ParsedEvent(asked, run_id=entry.status.run_id), query, alive=entry.active)
        newer = row.status is None or entry.status.at >= row.status.at
        status = entry.status if entry.active and entry.described and newer else row.status
        _name(unit, changed(row, facts=_merged(row.facts, entry.facts), status=status), event, entry.name)
    agent = unit.agents[event.agent]
    if parsed.listed_at is not None:
        unit.put_agent(changed(agent, polls=polls.with_poll(agent.polls, parsed.listed_at)))


def _on_agent_info(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    """app_started and heartbeat: the agent describes itself."""
    event = parsed.event
    row = unit.agents[event.agent]
    reported = {**event.data, "at": event.at}
    documents = {event.type: reported}
    if overload(host_load(reported)) is not None:  # explains failures that are reported after it has passed
        documents["overload"] = {"at": event.at, "hostLoad": reported["hostLoad"]}
    newer = {k: v for k, v in documents.items() if k not in row.info or event.at >= row.info[k]["at"]}
    row = changed(row, info={**row.info, **newer})
    agent = changed(row.agent, actions=_actions(row.info), dropped=_dropped(row.agent.dropped, event.data))
    unit.put_agent(changed(row, agent=agent))
    if event.type == "app_started":
        _revive_agent(unit, parsed)


def _actions(info: Mapping[str, Any]) -> str:
    """Which commands the driver accepts, from its newest event with that field."""
    known = [data for data in info.values() if data.get("actions") in wire.ACTION_MODES]
    return str(max(known, key=lambda data: float(data["at"]))["actions"]) if known else "all"


def _dropped(known: Mapping[str, int], data: Mapping[str, Any]) -> Mapping[str, int]:
    """Dropped events by reason. The agent reports totals, so the higher figure is the newer one."""
    totals = {
        str(k)[:64]: n for k, v in progress.mapping(data.get("dropped")).items() if (n := progress.whole(v))
    }
    reasons = list({**known, **totals})[:MAX_REASONS]
    return {reason: max(known.get(reason, 0), totals.get(reason, 0)) for reason in reasons}


def _on_app_ended(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    event = parsed.event
    row = unit.agents[event.agent]
    if row.agent.ended_at is None or event.at >= row.agent.ended_at:
        reason = progress.text(event.data.get("reason"), 100) or "exit"
        agent = changed(row.agent, ended_at=event.at, end_reason=reason)
        exception = progress.text(event.data.get("exception"), MAX_FAILURE_CHARS)
        info = {**row.info, "app_ended": {"at": event.at, "activeRuns": _active_runs(event)}}
        unit.put_agent(changed(row, agent=agent, end_exception=exception, info=info))
    unit.ended_agents.add(event.agent)


def _active_runs(event: wire.Event) -> list[str]:
    runs = event.data.get("activeRuns")
    return [str(run)[:64] for run in runs[:MAX_ACTIVE_RUNS]] if isinstance(runs, list) else []


HANDLERS: dict[str, Callable[[UnitOfWork, ParsedEvent], None]] = {
    "app_started": _on_agent_info,
    "started": _on_started,
    "start_failed": _on_start_failed,
    "progress": _on_progress,
    "idle": _on_idle,
    "terminated": _on_terminated,
    "status": _on_status,
    "heartbeat": _on_agent_info,
    "app_ended": _on_app_ended,
}


def _query(unit: UnitOfWork, event: wire.Event, query_id: str | None, name: str | None = None) -> QueryRow:
    """The query's row, created if it is new. Its name comes from its newest run, see `_name`."""
    assert query_id is not None
    row = unit.queries.get(query_id)
    if row is not None and row.first_seen_at <= event.at:
        return row
    row = row or QueryRow(0, query_id, event.app.name, name, dict(event.labels), event.at)
    row = changed(row, first_seen_at=min(row.first_seen_at, event.at))
    unit.put_query(row)
    return row


def _naming(event: wire.Event, name: str | None) -> QueryNaming:
    return QueryNaming(event.at, event.agent, event.app.name, name, dict(event.labels))


def _name(unit: UnitOfWork, row: RunRow, event: wire.Event, name: str | None) -> None:
    """Save the run with the query's name from its own agent; another app may run a copied checkpoint."""
    known = row.naming
    own = event.agent == row.run.agent
    if known is None or (own and (known.agent != event.agent or event.at >= known.at)):
        row = changed(row, naming=_naming(event, name))
    unit.put_run(row)


def _on_run(
    unit: UnitOfWork,
    parsed: ParsedEvent,
    query: QueryRow,
    batch_id: int | None = None,
    idle: bool = False,
    alive: bool = True,
) -> RunRow:
    """Update the run's row with this event, and create it if it is new.

    `alive`: the event shows that the run is active. Activity after an end that was only inferred revokes the end.
    """
    assert parsed.run_id is not None
    at = parsed.event.at
    row = unit.runs.get(parsed.run_id) or _new_run(unit, parsed, query)
    run = row.run
    over = run.ended_at is not None and (not alive or row.ended_by == "terminated" or at <= run.ended_at)
    if run.ended_at is not None and not over:
        run = changed(run, ended_at=None, end=None, failure_text=None, error_class=None)
    started_at, agent = _owner(unit, run, parsed)
    if batch_id is not None or (started_at, agent) != (run.started_at, run.agent):
        run = changed(run, started_at=started_at, agent=agent, **_batch_range(run, batch_id))
    row = changed(
        row,
        run=run,
        first_seq=_first_seq(row, agent, parsed.event),
        last_event_at=max(row.last_event_at, at),
        # A lost run keeps this mark: it has been counted as a failure and must not be counted again.
        ended_by=row.ended_by if over or row.ended_by == "lost" else None,
        idle_at=_later(row.idle_at, at) if idle else row.idle_at,
    )
    unit.put_run(row)
    return row


def _owner(unit: UnitOfWork, run: Run, parsed: ParsedEvent) -> tuple[float, str]:
    """When a run started, and the agent that owns it: the first to report it, until that agent has ended.

    Other agents on the cluster may see it but did not start it. After `detach` and `attach` in one process, or where
    one of two clients of a Spark Connect session ends, another agent reports the run from then on.
    """
    event = parsed.event
    ended_at, sender = unit.agents[run.agent].agent.ended_at, unit.agents[event.agent].agent
    if event.agent != run.agent and ended_at is not None and event.at > ended_at and sender.ended_at is None:
        return min(run.started_at, event.at), event.agent
    return min((run.started_at, run.agent), (event.at, event.agent))


def _new_run(unit: UnitOfWork, parsed: ParsedEvent, query: QueryRow) -> RunRow:
    assert parsed.run_id is not None
    unit.count(query.query_id, "starts")
    run = Run(0, parsed.run_id, query.query_id, parsed.event.agent, started_at=parsed.event.at)
    return RunRow(run, parsed.event.at, parsed.event.seq)


def _first_seq(row: RunRow, owner: str, event: wire.Event) -> int | None:
    """The smallest sequence number that the run's owner has used for it."""
    if event.agent != owner:
        return row.first_seq
    return event.seq if row.run.agent != owner else min(event.seq, row.first_seq or event.seq)


def _batch_range(run: Run, batch_id: int | None) -> dict[str, Any]:
    if batch_id is None:
        return {}
    first = batch_id if run.first_batch_id is None else min(run.first_batch_id, batch_id)
    last = batch_id if run.last_batch_id is None else max(run.last_batch_id, batch_id)
    return {"first_batch_id": first, "last_batch_id": last, "batches": run.batches + 1}


def _revive_agent(unit: UnitOfWork, parsed: ParsedEvent) -> None:
    """Revoke the end of a driver that starts something after its session ended."""
    row = unit.agents[parsed.event.agent]
    if row.agent.ended_at is not None and parsed.event.at > row.agent.ended_at:
        unit.put_agent(
            changed(row, agent=changed(row.agent, ended_at=None, end_reason=None), end_exception=None)
        )


def _later(known: float | None, at: float) -> float:
    return at if known is None else max(known, at)


def _merged(known: RunFacts, reported: RunFacts) -> RunFacts:
    """The known facts, replaced by the reported ones that are not None."""
    values = {} if reported is NO_FACTS else {k: v for k, v in vars(reported).items() if v is not None}
    return changed(known, **values) if values else known


def _count(unit: UnitOfWork, query_id: str, batch: ProgressSample) -> None:
    """Add a batch to the totals of its query: plain names, and `name|label` for each source and operator."""
    unit.counts.setdefault(query_id, Counter()).update(batch_counts(batch))


def batch_counts(batch: ProgressSample) -> Mapping[str, int]:
    """What a batch adds to the totals of its query, by counter name."""
    counts: dict[str, int] = defaultdict(int, batches=1, input_rows=batch.input_rows)
    if batch.output_rows is not None:
        counts["output_rows"] += batch.output_rows
    names = distinct_labels(source.name for source in batch.sources)
    for name, source in zip(names, batch.sources, strict=True):
        counts[f"source_input_rows|{name}"] += source.input_rows
    names = distinct_labels(operator.name for operator in batch.operators)
    for name, operator in zip(names, batch.operators, strict=True):
        counts[f"state_rows_updated|{name}"] += operator.rows_updated
        counts[f"state_rows_removed|{name}"] += operator.rows_removed
        counts[f"state_rows_dropped_by_watermark|{name}"] += operator.rows_dropped_by_watermark
    return counts
