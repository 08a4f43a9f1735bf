"""What of the store may go because the lake has it: marks, the identity of the store, events by their ids.

The marks are rows of `counters`. `controlplane.store.retention` obeys them, `controlplane.history` sets them once
the lake's commit is verified, and the jobs of `controlplane.pipeline` read events here, on their executors too.
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

#: A number that tells stores apart which move to one lake.
STORE_ID = "store_id"
#: How often the store was found to be set back, by a backup.
GENERATION = "generation"
#: Events up to this id are in the lake, by a commit that was verified.
OFFLOADED_UNTIL = "offloaded_until"
#: Newest time (milliseconds) of an event that was deleted: from then on the store is complete.
DELETED_UNTIL = "deleted_until"
#: Events that the byte limit deleted before the lake had them.
LOST_EVENTS = "lost_events"
#: What the lake keeps of events; the other types tell only of the present, or are kept elsewhere.
LAKE_EVENT_TYPES = frozenset(
    ("progress", "started", "idle", "terminated", "start_failed", "app_started", "app_ended", "dropped")
)
PAGE_ROWS = 2_000
#: Sums of agents' sequence numbers stay small by it.
MODULUS = 1_000_003


@dataclass(frozen=True)
class OffloadEvent:
    """One event on its way: `data` as it was sent; `at` in Unix seconds, by the corrected clock."""

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
    """A counter; None before it was ever set."""
    found = connection.execute(sa.select(counters.c.value).where(counters.c.name == name)).scalar()
    return None if found is None else int(found)


def set_value(connection: Connection, name: str, number: int) -> None:
    update = sa.update(counters).where(counters.c.name == name).values(value=number)
    if connection.execute(update).rowcount == 0:
        connection.execute(sa.insert(counters).values(name=name, value=number))


def raise_to(connection: Connection, name: str, number: int) -> None:
    """Set a mark that only ever rises."""
    known = value(connection, name)
    if known is None or known < number:
        set_value(connection, name, number)


def store_id(connection: Connection) -> str:
    """The identity of this store, made where it has none: for the writer."""
    known = value(connection, STORE_ID)
    if known is None:
        known = secrets.randbits(48)
        set_value(connection, STORE_ID, known)
    return format_id(known)


def start_generation(connection: Connection) -> None:
    """The store was set back, and its ids come anew: its events move under another name. For the writer."""
    set_value(connection, GENERATION, (value(connection, GENERATION) or 0) + 1)


def offload_name(connection: Connection) -> str | None:
    """The name under which events move: that of the store and of its life. None before any was moved."""
    known, lives = value(connection, STORE_ID), value(connection, GENERATION)
    if known is None:
        return None
    return f"{format_id(known)}.{lives}" if lives else format_id(known)


def format_id(number: int) -> str:
    return f"{number:012x}"


def complete_since(connection: Connection, query_id: str) -> float | None:
    """From when on the store has every report of a query, in Unix seconds; None where it has none at all."""
    first = sa.select(sa.func.min(batches.c.at)).where(batches.c.query_key == key_of(query_id))
    oldest = connection.execute(first).scalar()
    if oldest is None:
        return None
    return max(float(oldest), (value(connection, DELETED_UNTIL) or 0) / 1000)


def store_complete_since(connection: Connection) -> float:
    """From when on the store has all that it was ever told, in Unix seconds; 0 where nothing was deleted yet."""
    gone = value(connection, DELETED_UNTIL)
    return 0.0 if gone is None else gone / 1000


def last_id_before(connection: Connection, after: int, cutoff: float) -> int:
    """Id of the last event that may be moved: every one up to it is older than `cutoff`. `after`: where none is."""
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
    """How many events there are, and a sum by which others in their place are found out."""

    events: int
    seq_sum: int


def seq_residue(seq: int) -> int:
    """What an event adds to the sum of its tally."""
    return seq % MODULUS


def checksum(connection: Connection, after: int, until: int) -> RangeChecksum:
    """Of the events with after < id <= until that the lake keeps."""
    query = sa.select(sa.func.count(), sa.func.sum(events.c.seq % MODULUS)).where(
        events.c.id > after, events.c.id <= until, events.c.type.in_(LAKE_EVENT_TYPES)
    )
    found = connection.execute(query).one()
    return RangeChecksum(int(found[0]), int(found[1] or 0))


def count(connection: Connection, after: int, until: int) -> int:
    """Events with after < id <= until that the lake keeps."""
    return checksum(connection, after, until).events


def split_range(connection: Connection, after: int, until: int, size: int) -> list[int]:
    """Ids that part after < id <= until into stretches of about `size` events; the last is `until`."""
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
    """Events with after < id <= until that the lake keeps, in order of id; a page in memory at a time."""
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
