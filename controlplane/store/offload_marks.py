"""Marks of the offload to the lake, the store's identity, and reads of the events to offload.

The marks are rows of `counters`: events up to a mark may be deleted because the lake has them.
`controlplane.store.retention` reads the marks, `controlplane.history` sets them once the lake's commit is verified,
and the jobs of `controlplane.pipeline` read events here, on executors too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.blobs import Unpacker
from controlplane.store.rows import key_of
from controlplane.store.tables import agents, batches, counters, events

#: Number that distinguishes the stores that offload to one lake.
STORE_ID = "store_id"
#: How often the store was restored from a backup.
GENERATION = "generation"
#: Events up to this id are in the lake, in verified commits.
OFFLOADED_UNTIL = "offloaded_until"
#: Newest time (Unix milliseconds) of a deleted event: from then on the store is complete.
DELETED_UNTIL = "deleted_until"
#: Number of events that the byte limit deleted before the lake had them.
LOST_EVENTS = "lost_events"
#: Event types that the lake stores; the others describe only the present or are stored elsewhere.
LAKE_EVENT_TYPES = frozenset(
    ("progress", "started", "idle", "terminated", "start_failed", "app_started", "app_ended", "dropped")
)
PAGE_ROWS = 2_000
#: Sequence numbers are added modulo this, which keeps the sums small.
MODULUS = 1_000_003


@dataclass(frozen=True)
class OffloadEvent:
    """An event to offload: `data` as the agent sent it; `at` in Unix seconds by the corrected clock."""

    id: int
    agent: str
    seq: int
    at: float
    type: str
    app: str
    app_id: str | None
    spark_version: str | None
    data: dict[str, Any]


def value(connection: Connection, name: str) -> int | None:
    """The value of a counter; None before it was first set."""
    found = connection.execute(sa.select(counters.c.value).where(counters.c.name == name)).scalar()
    return None if found is None else int(found)


def set_value(connection: Connection, name: str, number: int) -> None:
    """Set a counter."""
    update = sa.update(counters).where(counters.c.name == name).values(value=number)
    if connection.execute(update).rowcount == 0:
        connection.execute(sa.insert(counters).values(name=name, value=number))


def raise_to(connection: Connection, name: str, number: int) -> None:
    """Raise a mark to `number`; a mark never falls."""
    known = value(connection, name)
    if known is None or known < number:
        set_value(connection, name, number)


def store_id(connection: Connection) -> str:
    """The identity of this store, assigned on first use. Needs the writer's connection."""
    known = value(connection, STORE_ID)
    if known is None:
        known = secrets.randbits(48)
        set_value(connection, STORE_ID, known)
    return format_id(known)


def start_generation(connection: Connection) -> None:
    """Begin a new generation after a restore from a backup, as event ids repeat. Needs the writer's connection."""
    set_value(connection, GENERATION, (value(connection, GENERATION) or 0) + 1)


def offload_name(connection: Connection) -> str | None:
    """The name under which events are offloaded: store id and generation. None before the first offload."""
    known, generation = value(connection, STORE_ID), value(connection, GENERATION)
    if known is None:
        return None
    return f"{format_id(known)}.{generation}" if generation else format_id(known)


def format_id(number: int) -> str:
    """A store id as 12 hexadecimal digits."""
    return f"{number:012x}"


def complete_since(connection: Connection, query_id: str) -> float | None:
    """Time from which the store has every report of a query, Unix seconds; None without a report."""
    first = sa.select(sa.func.min(batches.c.at)).where(batches.c.query_key == key_of(query_id))
    oldest = connection.execute(first).scalar()
    if oldest is None:
        return None
    return max(float(oldest), (value(connection, DELETED_UNTIL) or 0) / 1000)


def store_complete_since(connection: Connection) -> float:
    """Time from which the store has all its events, Unix seconds; 0 before the first deletion."""
    deleted = value(connection, DELETED_UNTIL)
    return 0.0 if deleted is None else deleted / 1000


def last_id_before(connection: Connection, after: int, cutoff: float) -> int:
    """Id of the last event whose predecessors are all older than `cutoff`; `after` if there is none."""
    young = (
        sa.select(events.c.id)
        .where(events.c.id > after, events.c.at >= cutoff)
        .order_by(events.c.id)
        .limit(1)
    )
    first = connection.execute(young).scalar()
    if first is not None:
        return max(after, int(first) - 1)
    newest = connection.execute(sa.select(sa.func.max(events.c.id))).scalar()
    return max(after, int(newest or 0))


@dataclass(frozen=True)
class RangeChecksum:
    """Number of events and sum of their sequence numbers, which shows when other events took their ids."""

    events: int
    seq_sum: int


def seq_residue(seq: int) -> int:
    """The summand of an event in `RangeChecksum.seq_sum`."""
    return seq % MODULUS


def checksum(connection: Connection, after: int, until: int) -> RangeChecksum:
    """Checksum of the events with after < id <= until that the lake stores."""
    query = sa.select(sa.func.count(), sa.func.sum(events.c.seq % MODULUS)).where(
        events.c.id > after, events.c.id <= until, events.c.type.in_(LAKE_EVENT_TYPES)
    )
    found = connection.execute(query).one()
    return RangeChecksum(int(found[0]), int(found[1] or 0))


def count(connection: Connection, after: int, until: int) -> int:
    """Number of events with after < id <= until that the lake stores."""
    return checksum(connection, after, until).events


def split_range(connection: Connection, after: int, until: int, size: int) -> list[int]:
    """Upper ids that split after < id <= until into ranges of about `size` events; the last is `until`."""
    found: list[int] = []
    place = after
    while place < until:
        query = (
            sa.select(events.c.id)
            .where(events.c.id > place, events.c.id <= until)
            .order_by(events.c.id)
            .offset(size - 1)
            .limit(1)
        )
        place = int(connection.execute(query).scalar() or until)
        found.append(place)
    return found


def events_to_offload(connection: Connection, after: int, until: int) -> Iterator[OffloadEvent]:
    """Events with after < id <= until that the lake stores, by id; one page is in memory at a time."""
    unpacker, place = Unpacker(connection), after
    columns = (events, agents.c.agent, agents.c.app, agents.c.app_id, agents.c.spark_version)
    while True:
        query = (
            sa.select(*columns)
            .join(agents, events.c.agent_key == agents.c.key)
            .where(events.c.id > place, events.c.id <= until, events.c.type.in_(LAKE_EVENT_TYPES))
            .order_by(events.c.id)
            .limit(PAGE_ROWS)
        )
        rows = connection.execute(query).all()
        for row in rows:
            yield OffloadEvent(
                row.id,
                row.agent,
                row.seq,
                row.at,
                row.type,
                row.app,
                row.app_id,
                row.spark_version,
                unpacker.unpack(row.dictionary, row.data),
            )
        if len(rows) < PAGE_ROWS:
            return
        place = rows[-1].id
