"""Raw events and the index of progress reports: append, find duplicates, read pages.

`controlplane.ingest.deduplication` writes in the writer's transaction; the API reads a query's events in pages, as
agents sent them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.model import ProgressSample
from controlplane.store.blobs import Unpacker
from controlplane.store.rows import key_of
from controlplane.store.tables import agents, batches, counters, events
from controlplane.store.writing.bulk import BulkStatement

#: Identity of a progress report: run key, batch id, trigger time.
BatchKey = tuple[int, int, float]


# Statements are built once, as building one costs more than running it.
_BUMP = (
    sa.update(counters)
    .where(counters.c.name == "events")
    .values(value=counters.c.value + sa.bindparam("count"))
    .returning(counters.c.value)
)
_APPEND = BulkStatement(sa.insert(events))
_APPEND_BATCHES = BulkStatement(sa.insert(batches))
_KNOWN_SEQS = sa.select(events.c.seq).where(
    events.c.agent_key == sa.bindparam("agent_key"), events.c.seq.in_(sa.bindparam("seqs", expanding=True))
)
_KNOWN_BATCHES = sa.select(batches.c.run_key, batches.c.batch_id, batches.c.trigger_at).where(
    batches.c.run_key.in_(sa.bindparam("run_keys", expanding=True)),
    batches.c.batch_id.in_(sa.bindparam("batch_ids", expanding=True)),
)


def reserve_ids(connection: Connection, count: int) -> int:
    """Reserve `count` event ids that are never reused and return the first."""
    last = connection.execute(_BUMP, {"count": count}).scalar()
    if last is None:
        connection.execute(sa.insert(counters).values(name="events", value=count))
        last = count
    return int(last) - count + 1


def append(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of `events`."""
    _APPEND.run(connection, rows)


def append_batches(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of `batches`, as `batch_values` returns them."""
    _APPEND_BATCHES.run(connection, rows)


def batch_values(report: ProgressSample, event_id: int, query_key: int, run_key: int) -> dict[str, Any]:
    """The row of `batches` for a progress report."""
    return {
        "event_id": event_id,
        "query_key": query_key,
        "run_key": run_key,
        "batch_id": report.batch_id,
        "trigger_at": report.trigger_at,
        "at": report.at,
    }


def known_seqs(connection: Connection, agent_key: int, seqs: Iterable[int]) -> set[int]:
    """Which of these sequence numbers of an agent are stored."""
    return set(connection.execute(_KNOWN_SEQS, {"agent_key": agent_key, "seqs": list(seqs)}).scalars())


def known_batches(connection: Connection, run_keys: Iterable[int], batch_ids: Iterable[int]) -> set[BatchKey]:
    """Identities of the reports stored for these runs and batch ids."""
    found = connection.execute(_KNOWN_BATCHES, {"run_keys": list(run_keys), "batch_ids": list(batch_ids)})
    return {(row.run_key, row.batch_id, row.trigger_at) for row in found}


def read_events(
    connection: Connection, query_id: str, after: int = 0, limit: int = 100, type: str | None = None
) -> tuple[list[dict[str, Any]], int | None]:
    """A page of a query's events with ids above `after`, oldest first, and the next page's `after` (None: last page).

    Each event is `{"id", "at", "type", "agent", "seq", "data"}`: `at` in Unix seconds, `data` as the agent sent it.
    """
    query = (
        sa.select(events, agents.c.agent)
        .join(agents, events.c.agent_key == agents.c.key)
        .where(events.c.query_key == key_of(query_id), events.c.id > after)
        .order_by(events.c.id)
        .limit(limit + 1)
    )
    if type is not None:
        query = query.where(events.c.type == type)
    rows = connection.execute(query).all()
    unpacker = Unpacker(connection)
    page = [_event(row, unpacker) for row in rows[:limit]]
    return page, page[-1]["id"] if len(rows) > limit and page else None


def _event(row: Any, unpacker: Unpacker) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": row.at,
        "type": row.type,
        "agent": row.agent,
        "seq": row.seq,
        "data": unpacker.unpack(row.dictionary, row.data),
    }
