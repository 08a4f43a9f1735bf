"""Checkpoint inventories and the doctor's reports on them: plain functions on a connection.

A query keeps the summaries of its last `MAX_SUMMARIES` inventories, which show its growth, and the whole documents of
the newest `MAX_DOCUMENTS`.
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

MAX_SUMMARIES = 20
MAX_DOCUMENTS = 2


@dataclass(frozen=True)
class StoredInventory:
    """An inventory to store.

    `taken_at`: Unix seconds by the server's clock; `summary`: `files`, `bytes`, `why` and `collector`; `document`: packed.
    """

    query_id: str
    run_id: str | None
    checkpoint: str
    taken_at: float
    summary: Mapping[str, Any]
    document: bytes


def pack(document: Mapping[str, Any]) -> bytes:
    """Compress an inventory document for the column `document`."""
    return blobs.Packer().pack(blobs.pack_json(document))


def put(
    connection: Connection, inventory: StoredInventory, analyzed_at: float, report: Mapping[str, Any]
) -> bool:
    """Store an inventory with its report; False if a newer inventory of the query has a report already."""
    values = {
        "query_id": inventory.query_id,
        "run_id": inventory.run_id,
        "checkpoint": inventory.checkpoint,
        "taken_at": inventory.taken_at,
        "summary": dict(inventory.summary),
        "document": inventory.document,
    }
    connection.execute(sa.insert(inventories).values(values))
    _delete_old(connection, inventory.query_id)
    return _put_report(connection, inventory, analyzed_at, report)


def query_exists(connection: Connection, query_id: str) -> bool:
    """Whether the query is known. An inventory of an unknown query would never be shown nor deleted."""
    return connection.execute(sa.select(key_of(query_id))).scalar() is not None


def _delete_old(connection: Connection, query_id: str) -> None:
    newest = (
        sa.select(inventories.c.key)
        .where(inventories.c.query_id == query_id)
        .order_by(inventories.c.taken_at.desc(), inventories.c.key.desc())
        .limit(MAX_SUMMARIES)
    )
    keys = list(connection.execute(newest).scalars())
    own = inventories.c.query_id == query_id
    connection.execute(sa.delete(inventories).where(own, inventories.c.key.not_in(keys)))
    without_document = (
        sa.update(inventories).where(inventories.c.key.in_(keys[MAX_DOCUMENTS:])).values(document=None)
    )
    connection.execute(without_document)


def _put_report(
    connection: Connection, inventory: StoredInventory, analyzed_at: float, report: Mapping[str, Any]
) -> bool:
    own = checkpoint_reports.c.query_id == inventory.query_id
    known = connection.execute(sa.select(checkpoint_reports.c.taken_at).where(own)).scalar()
    if known is not None and known > inventory.taken_at:
        return False
    connection.execute(sa.delete(checkpoint_reports).where(own))
    values = {
        "query_id": inventory.query_id,
        "taken_at": inventory.taken_at,
        "analyzed_at": analyzed_at,
        "verdict": str(report["verdict"]),
        "report": dict(report),
    }
    connection.execute(sa.insert(checkpoint_reports).values(values))
    return True


def latest_report(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The doctor's report on the newest inventory, with `taken_at`; None without an inventory."""
    query = sa.select(checkpoint_reports).where(checkpoint_reports.c.query_id == query_id)
    row = connection.execute(query).mappings().first()
    return {**row["report"], "taken_at": row["taken_at"]} if row else None


def latest_reports(connection: Connection, since: float = 0.0) -> dict[str, dict[str, Any]]:
    """The latest report of every query, by query id, of those made after `since` (Unix seconds)."""
    query = sa.select(checkpoint_reports).where(checkpoint_reports.c.analyzed_at > since)
    return {
        row["query_id"]: {**row["report"], "taken_at": row["taken_at"], "analyzed_at": row["analyzed_at"]}
        for row in connection.execute(query).mappings()
    }


def inventory_summaries(connection: Connection, query_id: str) -> list[dict[str, Any]]:
    """Summaries of the stored inventories, oldest first, each with `taken_at`."""
    query = (
        sa.select(inventories.c.taken_at, inventories.c.summary)
        .where(inventories.c.query_id == query_id)
        .order_by(inventories.c.taken_at, inventories.c.key)
    )
    return [{**row.summary, "taken_at": row.taken_at} for row in connection.execute(query)]


def document(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The newest inventory document, `{"checkpoint": …, "output": …}`; None without one."""
    query = (
        sa.select(inventories.c.document)
        .where(inventories.c.query_id == query_id, inventories.c.document.is_not(None))
        .order_by(inventories.c.taken_at.desc(), inventories.c.key.desc())
        .limit(1)
    )
    packed = connection.execute(query).scalar()
    return Unpacker(connection).unpack(0, packed) if packed is not None else None


def previous_query(connection: Connection, checkpoint: str, query_id: str) -> str | None:
    """The query that used this checkpoint location before `query_id`, by the times of their inventories; or None."""
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


def progress_before(
    connection: Connection, query_id: str, until: float, limit: int
) -> list[tuple[float, dict[str, Any]]]:
    """(time, progress as Spark wrote it) of the newest `limit` batches reported up to `until`, oldest first."""
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


def delete_queries(connection: Connection, query_ids: Iterable[str]) -> None:
    """Delete what is stored of these queries' checkpoints."""
    ids = list(query_ids)
    for table in (inventories, checkpoint_reports):
        connection.execute(sa.delete(table).where(table.c.query_id.in_(ids)))
