"""Stores what is new of a chunk of events: the one place that decides what is a duplicate.

Twice the same is: a sequence number of an agent that is stored, or a report of a batch (run, batch id
and trigger time) that somebody told already; two agents may hear the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from controlplane.events import lifecycle
from controlplane.events.parsing import ParsedEvent, query_name
from controlplane.records import Changes, References, UnitOfWork
from controlplane.store import events, unit_of_work


@dataclass(frozen=True)
class PreparedEvent:
    """A line that was read: where it stood, what it tells, and its data as it will be kept.

    `beat_at`: of a heartbeat, when we received it less the time it had waited to be sent.
    """

    line: int
    told: ParsedEvent
    clock_offset: float | None
    dictionary: int
    blob: bytes
    beat_at: float | None = None


@dataclass(frozen=True)
class StoredChunk:
    """What was new, and what it changed."""

    fresh: list[PreparedEvent]
    changes: Changes


def store(connection: Connection, prepared: Sequence[PreparedEvent], now: float) -> StoredChunk:
    """Store what is new of a chunk, in the writer's transaction."""
    book = unit_of_work.load(connection, references([one.told for one in prepared]))
    unheard = _unheard(connection, book, prepared)
    fresh = _unreported(connection, book, unheard)
    lifecycle.record_agents(book, [one.told.event for one in unheard], _offsets(prepared), _beats(unheard))
    lifecycle.apply_events(book, [one.told for one in fresh], now)
    unit_of_work.save(connection, book)
    _append(connection, book, fresh)
    return StoredChunk(fresh, _changes(book, fresh))


def references(told: Sequence[ParsedEvent]) -> References:
    """Agents, queries and runs that these events name."""
    entries = [entry for one in told for entry in one.entries]
    failed = (one.event for one in told if one.event.type == "start_failed" and one.query_id is None)
    return References(
        agents={one.event.agent for one in told},
        ending_agents={one.event.agent for one in told if one.event.type == "app_ended"},
        query_ids={one.query_id for one in told if one.query_id is not None}
        | {entry.query_id for entry in entries},
        run_ids={one.run_id for one in told if one.run_id is not None}
        | {entry.status.run_id for entry in entries},
        names={(event.app.name, query_name(event.data)) for event in failed},
    )


def _unheard(
    connection: Connection, book: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> list[PreparedEvent]:
    """What was not stored before, by agent and sequence number."""
    doubtful: dict[str, list[int]] = {}
    for one in prepared:
        row = book.agents.get(one.told.event.agent)
        if row is not None and row.pruned_seq < one.told.event.seq <= row.agent.high_seq:
            doubtful.setdefault(row.agent.agent, []).append(one.told.event.seq)
    seen = {
        (agent, seq)
        for agent, seqs in doubtful.items()
        for seq in events.known_seqs(connection, book.agents[agent].agent.key, seqs)
    }
    unheard = []
    for one in prepared:
        row = book.agents.get(one.told.event.agent)
        key = (one.told.event.agent, one.told.event.seq)
        if key not in seen and not (row is not None and key[1] <= row.pruned_seq):
            seen.add(key)
            unheard.append(one)
    return unheard


def _unreported(
    connection: Connection, book: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> list[PreparedEvent]:
    """Without the batches that somebody else has told of: two agents may hear the same report."""
    seen = _known_batches(connection, book, prepared)
    fresh = []
    for one in prepared:
        batch = one.told.batch
        if batch is not None:
            key = (batch.run_id, batch.batch_id, batch.trigger_at)
            if key in seen:
                continue
            seen.add(key)
        fresh.append(one)
    return fresh


def _known_batches(
    connection: Connection, book: UnitOfWork, prepared: Sequence[PreparedEvent]
) -> set[tuple[str, int, float]]:
    names: dict[int, str] = {}
    batch_ids = set()
    for batch in filter(None, (one.told.batch for one in prepared)):
        row = book.runs.get(batch.run_id)
        if row is not None and row.run.last_batch_id is not None and batch.batch_id <= row.run.last_batch_id:
            names[row.run.key] = batch.run_id
            batch_ids.add(batch.batch_id)
    if not names:
        return set()
    known = events.known_batches(connection, names, batch_ids)
    return {(names[run_key], batch_id, trigger_at) for run_key, batch_id, trigger_at in known}


def _offsets(prepared: Sequence[PreparedEvent]) -> Mapping[str, float]:
    return {one.told.event.agent: one.clock_offset for one in prepared if one.clock_offset is not None}


def _beats(prepared: Sequence[PreparedEvent]) -> Mapping[str, float]:
    beats: dict[str, float] = {}
    for one in prepared:
        if one.beat_at is not None:
            beats[one.told.event.agent] = max(one.beat_at, beats.get(one.told.event.agent, 0.0))
    return beats


def _append(connection: Connection, book: UnitOfWork, fresh: Sequence[PreparedEvent]) -> None:
    if not fresh:
        return
    first_id = events.reserve_ids(connection, len(fresh))
    rows, batch_rows = [], []
    for event_id, one in enumerate(fresh, start=first_id):
        told, event = one.told, one.told.event
        query = book.queries.get(lifecycle.query_id_of(book, told) or "")
        run = book.runs.get(told.run_id) if told.run_id else None
        rows.append(
            {
                "id": event_id,
                "agent_key": book.agents[event.agent].agent.key,
                "seq": event.seq,
                "at": event.at,
                "type": event.type,
                "query_key": query.key if query else None,
                "run_key": run.run.key if run else None,
                "dictionary": one.dictionary,
                "data": one.blob,
            }
        )
        if told.batch is not None and query is not None and run is not None:
            batch_rows.append(events.batch_values(told.batch, event_id, query.key, run.run.key))
    events.append(connection, rows)
    events.append_batches(connection, batch_rows)


def _changes(book: UnitOfWork, fresh: Sequence[PreparedEvent]) -> Changes:
    return Changes(
        agents=[row for name, row in book.agents.items() if name in book.changed],
        queries=[row for name, row in book.queries.items() if name in book.changed],
        runs=[row for name, row in book.runs.items() if name in book.changed],
        batches=[
            (one.told.query_id, one.told.batch) for one in fresh if one.told.query_id and one.told.batch
        ],
    )
