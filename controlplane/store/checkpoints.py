"""Inventories of checkpoints and what the doctor said of them: plain functions on a connection.

Of a query the headers of the last few inventories are kept for its growth, whole documents only of the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store import blobs
from controlplane.store.blobs import Unpacker
from controlplane.store.rows import key_of
from controlplane.store.tables import batches, checkpoint_reports, events, inventories

HEADERS = 20
DOCUMENTS = 2


@dataclass(frozen=True)
class Taken:
    """An inventory to keep. `taken_at` by our clock; `header`: `files`, `bytes` and who took it; `document`: packed."""

    query_id: str
    run_id: str | None
    checkpoint: str
    taken_at: float
    header: Mapping[str, Any]
    document: bytes


def pack(document: Mapping[str, Any]) -> bytes:
    """A document as it is stored."""
    return blobs.Packer().pack(blobs.pack_json(document))


def put(connection: Connection, taken: Taken, judged_at: float, judgement: Mapping[str, Any]) -> bool:
    """Keep an inventory with what the doctor said; False where a newer one of the query is there already."""
    values = {
        "query_id": taken.query_id,
        "run_id": taken.run_id,
        "checkpoint": taken.checkpoint,
        "taken_at": taken.taken_at,
        "summary": dict(taken.header),
        "document": taken.document,
    }
    connection.execute(sa.insert(inventories).values(values))
    _thin_out(connection, taken.query_id)
    return _put_verdict(connection, taken, judged_at, judgement)


def is_known(connection: Connection, query_id: str) -> bool:
    """Whether there is such a query: what is kept of another nobody would see, and nothing would delete it."""
    return connection.execute(sa.select(key_of(query_id))).scalar() is not None


def _thin_out(connection: Connection, query_id: str) -> None:
    newest = (
        sa.select(inventories.c.key)
        .where(inventories.c.query_id == query_id)
        .order_by(inventories.c.taken_at.desc(), inventories.c.key.desc())
        .limit(HEADERS)
    )
    keys = list(connection.execute(newest).scalars())
    own = inventories.c.query_id == query_id
    connection.execute(sa.delete(inventories).where(own, inventories.c.key.not_in(keys)))
    bare = sa.update(inventories).where(inventories.c.key.in_(keys[DOCUMENTS:])).values(document=None)
    connection.execute(bare)


def _put_verdict(
    connection: Connection, taken: Taken, judged_at: float, judgement: Mapping[str, Any]
) -> bool:
    own = checkpoint_reports.c.query_id == taken.query_id
    known = connection.execute(sa.select(checkpoint_reports.c.taken_at).where(own)).scalar()
    if known is not None and known > taken.taken_at:
        return False
    connection.execute(sa.delete(checkpoint_reports).where(own))
    values = {
        "query_id": taken.query_id,
        "taken_at": taken.taken_at,
        "analyzed_at": judged_at,
        "verdict": str(judgement["verdict"]),
        "report": dict(judgement),
    }
    connection.execute(sa.insert(checkpoint_reports).values(values))
    return True


def judgement(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """What the doctor said of the newest inventory, with `taken_at`; None where there is none."""
    query = sa.select(checkpoint_reports).where(checkpoint_reports.c.query_id == query_id)
    row = connection.execute(query).mappings().first()
    return {**row["report"], "taken_at": row["taken_at"]} if row else None


def judgements(connection: Connection) -> dict[str, dict[str, Any]]:
    """The same of every query, by its id."""
    rows = connection.execute(sa.select(checkpoint_reports)).mappings()
    return {row["query_id"]: {**row["report"], "taken_at": row["taken_at"]} for row in rows}


def headers(connection: Connection, query_id: str) -> list[dict[str, Any]]:
    """Headers of the inventories kept, oldest first, each with `taken_at`."""
    query = (
        sa.select(inventories.c.taken_at, inventories.c.summary)
        .where(inventories.c.query_id == query_id)
        .order_by(inventories.c.taken_at, inventories.c.key)
    )
    return [{**row.summary, "taken_at": row.taken_at} for row in connection.execute(query)]


def document(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The newest whole inventory as it was stored: `{"checkpoint": …, "output": …}`."""
    query = (
        sa.select(inventories.c.document)
        .where(inventories.c.query_id == query_id, inventories.c.document.is_not(None))
        .order_by(inventories.c.taken_at.desc(), inventories.c.key.desc())
        .limit(1)
    )
    packed = connection.execute(query).scalar()
    return Unpacker(connection).unpack(0, packed) if packed is not None else None


def former_query(connection: Connection, checkpoint: str, query_id: str) -> str | None:
    """The query whose inventory of the same place came before all of this one's; None where there is none."""
    first = (
        sa.select(sa.func.min(inventories.c.taken_at))
        .where(inventories.c.query_id == query_id)
        .scalar_subquery()
    )
    query = (
        sa.select(inventories.c.query_id)
        .where(inventories.c.checkpoint == checkpoint, inventories.c.query_id != query_id)
        .where((inventories.c.taken_at < first) | first.is_(None))
        .order_by(inventories.c.taken_at.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else str(found)


def reports_before(
    connection: Connection, query_id: str, until: float, limit: int
) -> list[tuple[float, dict[str, Any]]]:
    """(time, report as Spark wrote it) of the newest `limit` batches heard by then, oldest first."""
    query = (
        sa.select(events.c.at, events.c.dictionary, events.c.data)
        .join(batches, batches.c.event_id == events.c.id)
        .where(batches.c.query_key == key_of(query_id), batches.c.at <= until)
        .order_by(batches.c.at.desc(), batches.c.trigger_at.desc(), batches.c.batch_id.desc())
        .limit(limit)
    )
    unpacker = Unpacker(connection)
    found = [(row.at, unpacker.unpack(row.dictionary, row.data)) for row in connection.execute(query)]
    return found[::-1]


def forget(connection: Connection, query_ids: Iterable[str]) -> None:
    """These queries are gone."""
    gone = list(query_ids)
    for table in (inventories, checkpoint_reports):
        connection.execute(sa.delete(table).where(table.c.query_id.in_(gone)))
