"""What events change: agents, queries and runs. Pure.

Called by `controlplane.ingest.deduplication`, which loads the rows before and saves them after; what follows from
all events together is in `controlplane.events.run_resolution`.

Events of one agent come in order, but two agents, a spool that was left behind and a resend may come
at any time. So every change is a merge (earliest, latest, strongest), and the same events in another
order, or told twice, give the same rows.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from controlplane.events import gaps, progress
from controlplane.events.parsing import ParsedEvent, query_name
from controlplane.events.run_resolution import count_failure, resolve_runs, with_naming
from controlplane.model import Agent, ProgressSample, Run, RunFacts
from controlplane.records import AgentRow, QueryNaming, QueryRow, RunRow, UnitOfWork
from listeners.protocol import wire
from listeners.protocol.catalogue import distinct

MAX_FAILURE_CHARS = 64 * 1024
#: They come from outside: an agent keeps no more than so many.
MAX_REASONS = 30
_UNSTARTED = uuid.UUID("6f2f5a0c-5c0f-5b0e-9c57-0d9b3f6a2b11")


def apply_events(ledger: UnitOfWork, told: Iterable[ParsedEvent], now: float) -> None:
    """Apply events to the rows of the ledger, then settle what follows from all of them together.

    `record_agents` comes first: it makes the rows of the agents.
    """
    concerned: set[str] = set()
    for one in told:
        handler = HANDLERS.get(one.event.type)
        if handler is not None and not one.raw:
            handler(ledger, one)
            _report(ledger, one, now)
        concerned.update(filter(None, (query_id_of(ledger, one), *(entry.query_id for entry in one.entries))))
    rows_of: dict[str, list[RunRow]] = {}
    for row in ledger.runs.values():
        rows_of.setdefault(row.run.query_id, []).append(row)
        if row.run.agent in ledger.ended_agents:
            concerned.add(row.run.query_id)
    for query_id in concerned & ledger.queries.keys():
        resolve_runs(ledger, query_id, rows_of.get(query_id, []), now)


def _report(ledger: UnitOfWork, told: ParsedEvent, now: float) -> None:
    if told.batch is not None and told.query_id is not None:
        query = ledger.queries[told.query_id]
        reported = gaps.record_report(query.reported, told.batch.run_id, told.batch.batch_id, now)
        ledger.put_query(replace(query, reported=reported))


def record_agents(
    ledger: UnitOfWork,
    events: Iterable[wire.Event],
    clock_offsets: Mapping[str, float],
    beats: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Note who spoke, how far each agent has told and how far its clock is off.

    `beats`: by agent the time of its last heartbeat by our clock alone, so that a clock that is wrong, or was
    just set, never makes an agent that speaks look silent.
    """
    spoken: dict[str, list[wire.Event]] = {}
    for event in events:
        spoken.setdefault(event.agent, []).append(event)
    for agent, said in spoken.items():
        _hear_agent(ledger, agent, said, beats.get(agent, 0.0))
    for agent, offset in clock_offsets.items():
        row = ledger.agents.get(agent)
        if row is not None and abs(row.agent.clock_offset - offset) > 0.001:
            ledger.put_agent(replace(row, agent=replace(row.agent, clock_offset=offset)))


def _hear_agent(ledger: UnitOfWork, name: str, said: list[wire.Event], beat_at: float) -> None:
    newest = max(said, key=lambda event: event.at)
    row = ledger.agents.get(name)
    if row is None:
        row = AgentRow(Agent(key=0, agent=name, app=newest.app.name, first_seen_at=newest.at))
    agent, app = row.agent, newest.app
    if newest.at >= row.described_at:
        agent = replace(
            agent,
            app=app.name,
            app_id=app.id or agent.app_id,
            spark_version=app.spark_version or agent.spark_version,
            master=app.master or agent.master,
            ui_url=app.ui_url or agent.ui_url,
            labels=dict(newest.labels),
        )
    agent = replace(
        agent,
        first_seen_at=min(agent.first_seen_at, *(event.at for event in said)),
        last_seen_at=max(agent.last_seen_at, newest.at, beat_at),
        high_seq=max(agent.high_seq, *(event.seq for event in said)),
    )
    ledger.put_agent(replace(row, agent=agent, described_at=max(row.described_at, newest.at)))


def _on_progress(ledger: UnitOfWork, told: ParsedEvent) -> None:
    query = _query(ledger, told.event, told.query_id, query_name(told.event.data))
    batch = told.batch
    row = _on_run(ledger, told, query, batch_id=batch.batch_id if batch else None, idle=batch is None)
    _name(ledger, row, told.event, query_name(told.event.data))
    if batch is not None:
        _count(ledger, query.query_id, batch)


def _on_started(ledger: UnitOfWork, told: ParsedEvent) -> None:
    query = _query(ledger, told.event, told.query_id, query_name(told.event.data))
    _name(ledger, _on_run(ledger, told, query), told.event, query_name(told.event.data))
    _revive_agent(ledger, told)


def _on_idle(ledger: UnitOfWork, told: ParsedEvent) -> None:
    _on_run(ledger, told, _query(ledger, told.event, told.query_id), idle=True)


def _on_terminated(ledger: UnitOfWork, told: ParsedEvent) -> None:
    query = _query(ledger, told.event, told.query_id)
    row = _on_run(ledger, told, query, alive=False)
    if row.ended_by == "terminated" and row.run.ended_at is not None and told.event.at >= row.run.ended_at:
        return
    data = told.event.data
    run = replace(
        row.run,
        ended_at=told.event.at,
        failure_text=progress.text(data.get("exception"), MAX_FAILURE_CHARS),
        error_class=progress.text(data.get("errorClassOnException"), 200),
    )
    ledger.put_run(replace(row, run=run, ended_by="terminated"))


def _on_start_failed(ledger: UnitOfWork, told: ParsedEvent) -> None:
    event, name = told.event, query_name(told.event.data)
    query_id = query_id_of(ledger, told)
    if query_id is None:
        return
    query = _query(ledger, event, query_id, name)
    has_run = any(row.run.query_id == query_id and row.naming for row in ledger.runs.values())
    if not has_run and event.at >= query.described_at:
        query = with_naming(query, _naming(event, name))
        ledger.put_query(query)
    failure = progress.text(event.data.get("exception"), MAX_FAILURE_CHARS)
    ledger.count(query_id, "starts")
    count_failure(ledger, query_id, failure)
    if query.start_failed_at is None or event.at >= query.start_failed_at:
        query = replace(query, start_failed_at=event.at, start_failure=failure)
        ledger.put_query(query)


def query_id_of(ledger: UnitOfWork, told: ParsedEvent) -> str | None:
    """The query an event is about; a start that failed may tell its name alone."""
    if told.query_id is not None or told.event.type != "start_failed" or told.raw:
        return told.query_id
    return _known_by_name(ledger, told.event.app.name, query_name(told.event.data))


def _known_by_name(ledger: UnitOfWork, app: str, name: str | None) -> str | None:
    """The query that people mean by this name; one that never started gets an id made from the name."""
    if name is None:
        return None
    bearers = [row for row in ledger.queries.values() if (row.app, row.name) == (app, name)]
    newest = max(bearers, key=lambda row: row.described_at, default=None)
    return newest.query_id if newest is not None else unstarted_id(app, name)


def unstarted_id(app: str, name: str) -> str:
    """The id of a query that failed before Spark gave it one: the same for the same app and name."""
    return str(uuid.uuid5(_UNSTARTED, f"{app}\0{name}"))


def _on_status(ledger: UnitOfWork, told: ParsedEvent) -> None:
    event = told.event
    for entry in told.entries:
        query = _query(ledger, event, entry.query_id, entry.name)
        row = _on_run(ledger, replace(told, run_id=entry.status.run_id), query, alive=entry.active)
        row = replace(row, facts=_joined(row.facts, entry.facts))
        if entry.active and (row.status is None or entry.status.at >= row.status.at):
            row = replace(row, status=entry.status)
        _name(ledger, row, event, entry.name)
    agent = ledger.agents[event.agent]
    if event.data.get("partial") is not True:  # else what is not listed may only not have been asked
        ledger.put_agent(replace(agent, polled_at=_later(agent.polled_at, event.at)))


def _on_told_itself(ledger: UnitOfWork, told: ParsedEvent) -> None:
    """app_started and heartbeat: what the agent says of itself."""
    event = told.event
    row = ledger.agents[event.agent]
    known = row.info.get(event.type)
    if known is None or event.at >= known["at"]:
        row = replace(row, info={**row.info, event.type: {**event.data, "at": event.at}})
    agent = replace(row.agent, actions=_actions(row.info), dropped=_dropped(row.agent.dropped, event.data))
    ledger.put_agent(replace(row, agent=agent))
    if event.type == "app_started":
        _revive_agent(ledger, told)


def _actions(info: Mapping[str, Any]) -> str:
    """The newest word on which commands the driver obeys."""
    told = [said for said in info.values() if said.get("actions") in wire.ACTION_MODES]
    return str(max(told, key=lambda said: float(said["at"]))["actions"]) if told else "all"


def _dropped(known: Mapping[str, int], data: Mapping[str, Any]) -> Mapping[str, int]:
    """The agent tells totals by reason: the higher figure is the later one."""
    told = {
        str(k)[:64]: n for k, v in progress.mapping(data.get("dropped")).items() if (n := progress.whole(v))
    }
    reasons = list({**known, **told})[:MAX_REASONS]
    return {reason: max(known.get(reason, 0), told.get(reason, 0)) for reason in reasons}


def _on_app_ended(ledger: UnitOfWork, told: ParsedEvent) -> None:
    event = told.event
    row = ledger.agents[event.agent]
    if row.agent.ended_at is None or event.at >= row.agent.ended_at:
        reason = progress.text(event.data.get("reason"), 100) or "exit"
        agent = replace(row.agent, ended_at=event.at, end_reason=reason)
        exception = progress.text(event.data.get("exception"), MAX_FAILURE_CHARS)
        ledger.put_agent(replace(row, agent=agent, end_exception=exception))
    ledger.ended_agents.add(event.agent)


HANDLERS: dict[str, Callable[[UnitOfWork, ParsedEvent], None]] = {
    "app_started": _on_told_itself,
    "started": _on_started,
    "start_failed": _on_start_failed,
    "progress": _on_progress,
    "idle": _on_idle,
    "terminated": _on_terminated,
    "status": _on_status,
    "heartbeat": _on_told_itself,
    "app_ended": _on_app_ended,
}


def _query(ledger: UnitOfWork, event: wire.Event, query_id: str | None, name: str | None = None) -> QueryRow:
    """The query's row, made when it is new. What people call it is the word of its newest run: `_name`."""
    assert query_id is not None
    row = ledger.queries.get(query_id)
    if row is None:
        row = QueryRow(0, query_id, event.app.name, name, dict(event.labels), event.at)
    row = replace(row, first_seen_at=min(row.first_seen_at, event.at))
    ledger.put_query(row)
    return row


def _naming(event: wire.Event, name: str | None) -> QueryNaming:
    return QueryNaming(event.at, event.agent, event.app.name, name, dict(event.labels))


def _name(ledger: UnitOfWork, row: RunRow, event: wire.Event, name: str | None) -> None:
    """Keep the run, with what its own agent calls the query: of one checkpoint another app may have a copy."""
    known = row.naming
    own = event.agent == row.run.agent
    if known is None or (own and (known.agent != event.agent or event.at >= known.at)):
        row = replace(row, naming=_naming(event, name))
    ledger.put_run(row)


def _on_run(
    ledger: UnitOfWork,
    told: ParsedEvent,
    query: QueryRow,
    batch_id: int | None = None,
    idle: bool = False,
    alive: bool = True,
) -> RunRow:
    """The run's row with this sign of life, made when it is new.

    Life after an end that was only inferred takes the end back; `alive`: the event tells of life.
    """
    assert told.run_id is not None
    at = told.event.at
    row = ledger.runs.get(told.run_id) or _new_run(ledger, told, query)
    run = row.run
    over = run.ended_at is not None and (not alive or row.ended_by == "terminated" or at <= run.ended_at)
    if run.ended_at is not None and not over:
        run = replace(run, ended_at=None, end=None, failure_text=None, error_class=None)
    # A run is its first teller's: others on the same cluster may hear of it, but did not start it.
    started_at, agent = min((run.started_at, run.agent), (at, told.event.agent))
    row = replace(
        row,
        run=replace(run, started_at=started_at, agent=agent, **_batch_range(run, batch_id)),
        last_event_at=max(row.last_event_at, at),
        # That a run was thought lost is remembered: it has counted as a failure, and must not again.
        ended_by=row.ended_by if over or row.ended_by == "lost" else None,
        idle_at=_later(row.idle_at, at) if idle else row.idle_at,
    )
    ledger.put_run(row)
    return row


def _new_run(ledger: UnitOfWork, told: ParsedEvent, query: QueryRow) -> RunRow:
    assert told.run_id is not None
    ledger.count(query.query_id, "starts")
    run = Run(0, told.run_id, query.query_id, told.event.agent, started_at=told.event.at)
    return RunRow(run, told.event.at)


def _batch_range(run: Run, batch_id: int | None) -> dict[str, Any]:
    if batch_id is None:
        return {}
    first = batch_id if run.first_batch_id is None else min(run.first_batch_id, batch_id)
    last = batch_id if run.last_batch_id is None else max(run.last_batch_id, batch_id)
    return {"first_batch_id": first, "last_batch_id": last, "batches": run.batches + 1}


def _revive_agent(ledger: UnitOfWork, told: ParsedEvent) -> None:
    """A driver that starts something after its session ended lives on."""
    row = ledger.agents[told.event.agent]
    if row.agent.ended_at is not None and told.event.at > row.agent.ended_at:
        ledger.put_agent(
            replace(row, agent=replace(row.agent, ended_at=None, end_reason=None), end_exception=None)
        )


def _later(known: float | None, at: float) -> float:
    return at if known is None else max(known, at)


def _joined(known: RunFacts, told: RunFacts) -> RunFacts:
    """What is told replaces what was known; what is not told stays."""
    values = {f.name: v for f in fields(RunFacts) if (v := getattr(told, f.name)) is not None}
    return replace(known, **values) if values else known


def _count(ledger: UnitOfWork, query_id: str, batch: ProgressSample) -> None:
    """Totals of a query: plain names, and `name|label` for each source and operator."""
    ledger.counts.setdefault(query_id, Counter()).update(batch_counts(batch))


def batch_counts(batch: ProgressSample) -> Counter[str]:
    """What a batch adds to the totals of its query."""
    counts = Counter({"batches": 1, "input_rows": batch.input_rows})
    if batch.output_rows is not None:
        counts["output_rows"] += batch.output_rows
    names = distinct(source.name for source in batch.sources)
    for name, source in zip(names, batch.sources, strict=True):
        counts[f"source_input_rows|{name}"] += source.input_rows
    names = distinct(operator.name for operator in batch.operators)
    for name, operator in zip(names, batch.operators, strict=True):
        counts[f"state_rows_updated|{name}"] += operator.rows_updated
        counts[f"state_rows_removed|{name}"] += operator.rows_removed
        counts[f"state_rows_dropped_by_watermark|{name}"] += operator.rows_dropped_by_watermark
    return counts
