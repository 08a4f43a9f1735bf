"""Store the new events of a chunk: the only module that decides what is a duplicate.

A duplicate is an agent's sequence number that is stored already, or a report of a batch (run, batch id and
trigger time) that another agent has sent already; two agents may receive the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy.engine import Connection

from controlplane.events import lifecycle
from controlplane.events.parsing import ParsedEvent, query_name
from controlplane.model import Agent
from controlplane.records import Changes, References, UnitOfWork, changed
from controlplane.store import events
from controlplane.store.writing import unit_of_work
from controlplane.store.writing.row_cache import RowCache

AgentOf = Callable[[str], Agent | None]


def nothing_known(agent: str) -> None:
    """No contact of any agent is known."""


@dataclass(frozen=True)
class PreparedEvent:
    """A parsed line with its line number and its packed data.

    `heartbeat_at`: for a heartbeat, the time of receipt less the time it waited to be sent, by the server's
    clock.
    """

    line: int
    parsed: ParsedEvent
    clock_offset: float | None
    dictionary: int
    blob: bytes
    heartbeat_at: float | None = None


@dataclass(frozen=True)
class StoredChunk:
    """The new events of a chunk, and the rows they changed. Call `keep` after COMMIT."""

    fresh: list[PreparedEvent]
    changes: Changes
    keep: Callable[[], None]


def store(
    connection: Connection,
    prepared: Sequence[PreparedEvent],
    now: float,
    rows: RowCache,
    listening_since: float = 0.0,
    agent_of: AgentOf = nothing_known,
) -> StoredChunk:
    """Store the new events of a chunk in the writer's transaction. `now`: Unix seconds.

    `listening_since`: when this server started; `agent_of`: an agent with its last contact.
    """
    named = references([event.parsed for event in prepared])
    unit = rows.load(connection, named)
    note_contacts(unit, agent_of)
    unseen = _unseen(connection, unit, prepared)
    fresh = _unreported(connection, unit, unseen)
    lifecycle.record_agents(
        unit, [item.parsed.event for item in unseen], _offsets(prepared), _heartbeats(unseen)
    )
    lifecycle.apply_events(unit, [item.parsed for item in fresh], now, listening_since)
    unit_of_work.save(connection, unit)
    _append(connection, unit, fresh)
    rows.leave(unit)
    return StoredChunk(fresh, _changes(unit, fresh), partial(rows.keep, unit, named.query_ids))


def note_contacts(unit: UnitOfWork, agent_of: AgentOf) -> None:
    """Set the last contact of each agent, which the store does not keep."""
    for name, row in unit.agents.items():
        known = agent_of(name)
        if known is not None and known.contact_at != row.agent.contact_at:
            unit.agents[name] = changed(row, agent=changed(row.agent, contact_at=known.contact_at))


def references(events: Sequence[ParsedEvent]) -> References:
    """The agents, queries and runs that these events name."""
    entries = [entry for parsed in events for entry in parsed.entries]
    failed = (
        parsed.event for parsed in events if parsed.event.type == "start_failed" and parsed.query_id is None
    )
    return References(
        agents={parsed.event.agent for parsed in events},
        ending_agents={parsed.event.agent for parsed in events if parsed.event.type == "app_ended"},
        query_ids={parsed.query_id for parsed in events if parsed.query_id is not None}
        | {entry.query_id for entry in entries},
        run_ids={parsed.run_id for parsed in events if parsed.run_id is not None}
        | {entry.status.run_id for entry in entries},
        names={(event.app.name, query_name(event.data)) for event in failed},
    )


def _unseen(
    connection: Connection, unit: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> list[PreparedEvent]:
    """The events that are not stored yet, by agent and sequence number."""
    doubtful: dict[str, list[int]] = {}
    for item in prepared:
        row = unit.agents.get(item.parsed.event.agent)
        if row is not None and row.pruned_seq < item.parsed.event.seq <= row.agent.high_seq:
            doubtful.setdefault(row.agent.agent, []).append(item.parsed.event.seq)
    seen = {
        (agent, seq)
        for agent, seqs in doubtful.items()
        for seq in events.known_seqs(connection, unit.agents[agent].agent.key, seqs)
    }
    unseen = []
    for item in prepared:
        row = unit.agents.get(item.parsed.event.agent)
        key = (item.parsed.event.agent, item.parsed.event.seq)
        if key not in seen and not (row is not None and key[1] <= row.pruned_seq):
            seen.add(key)
            unseen.append(item)
    return unseen


def _unreported(
    connection: Connection, unit: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> list[PreparedEvent]:
    """The events without reports of batches that are stored already or repeated in the chunk."""
    seen = _known_batches(connection, unit, prepared)
    fresh = []
    for item in prepared:
        batch = item.parsed.batch
        if batch is not None:
            key = (batch.run_id, batch.batch_id, batch.trigger_at)
            if key in seen:
                continue
            seen.add(key)
        fresh.append(item)
    return fresh


def _known_batches(
    connection: Connection, unit: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> set[tuple[str, int, float]]:
    names: dict[int, str] = {}
    batch_ids = set()
    for batch in filter(None, (item.parsed.batch for item in prepared)):
        row = unit.runs.get(batch.run_id)
        if row is not None and row.run.last_batch_id is not None and batch.batch_id <= row.run.last_batch_id:
            names[row.run.key] = batch.run_id
            batch_ids.add(batch.batch_id)
    if not names:
        return set()
    known = events.known_batches(connection, names, batch_ids)
    return {(names[run_key], batch_id, trigger_at) for run_key, batch_id, trigger_at in known}


def _offsets(prepared: Sequence[PreparedEvent]) -> Mapping[str, float]:
    return {item.parsed.event.agent: item.clock_offset for item in prepared if item.clock_offset is not None}


def _heartbeats(prepared: Sequence[PreparedEvent]) -> Mapping[str, float]:
    heartbeats: dict[str, float] = {}
    for item in prepared:
        if item.heartbeat_at is not None:
            heartbeats[item.parsed.event.agent] = max(
                item.heartbeat_at, heartbeats.get(item.parsed.event.agent, 0.0)
            )
    return heartbeats


def _append(connection: Connection, unit: UnitOfWork, fresh: Sequence[PreparedEvent]) -> None:
    if not fresh:
        return
    first_id = events.reserve_ids(connection, len(fresh))
    rows, batch_rows = [], []
    for event_id, item in enumerate(fresh, start=first_id):
        parsed, event = item.parsed, item.parsed.event
        query = unit.queries.get(lifecycle.query_id_of(unit, parsed) or "")
        run = unit.runs.get(parsed.run_id) if parsed.run_id else None
        rows.append(
            {
                "id": event_id,
                "agent_key": unit.agents[event.agent].agent.key,
                "seq": event.seq,
                "at": event.at,
                "type": event.type,
                "query_key": query.key if query else None,
                "run_key": run.run.key if run else None,
                "dictionary": item.dictionary,
                "data": item.blob,
            }
        )
        if parsed.batch is not None and query is not None and run is not None:
            batch_rows.append(events.batch_values(parsed.batch, event_id, query.key, run.run.key))
    events.append(connection, rows)
    events.append_batches(connection, batch_rows)


def _changes(unit: UnitOfWork, fresh: Sequence[PreparedEvent]) -> Changes:
    return Changes(
        agents=[row for name, row in unit.agents.items() if name in unit.changed],
        queries=[row for name, row in unit.queries.items() if name in unit.changed],
        runs=[row for name, row in unit.runs.items() if name in unit.changed],
        batches=[
            (item.parsed.query_id, item.parsed.batch)
            for item in fresh
            if item.parsed.query_id and item.parsed.batch
        ],
        quiet=[unit.runs[name] for name in unit.quiet - unit.changed],
    )
