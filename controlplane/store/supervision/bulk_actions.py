"""Stored bulk actions. Their actions are in the table of actions, found by the bulk action's key."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Index, Integer, Table
from sqlalchemy.engine import Connection

from controlplane.bulk_model import BulkAction, BulkState
from controlplane.model import Action
from controlplane.store import actions as action_rows
from controlplane.store.tables import CleanText, Json, Seconds, metadata

bulk_actions = Table(
    "bulk_actions",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("action", CleanText, nullable=False),
    Column("query_ids", Json, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("via", CleanText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("requested_at", Seconds, nullable=False),
    Column("drain", Boolean(create_constraint=False), nullable=False),
    Column("max_parallel", Integer, nullable=False),
    Column("halt_on_failure", Boolean(create_constraint=False), nullable=False),
    Column("state", CleanText, nullable=False),
    Column("ended_at", Seconds),
    Column("why", CleanText, nullable=False),
    Index(None, "requested_at"),
)
_FIELDS = tuple(f.name for f in fields(BulkAction))


def insert(connection: Connection, bulk: BulkAction) -> None:
    """Store a new bulk action."""
    connection.execute(sa.insert(bulk_actions).values(_values(bulk)))


def end(connection: Connection, bulk: BulkAction) -> bool:
    """Store the end of a running bulk action; False if it has ended already."""
    running = (bulk_actions.c.id == bulk.id) & (bulk_actions.c.state == BulkState.RUNNING.value)
    changed = {"state": bulk.state.value, "ended_at": bulk.ended_at, "why": bulk.why}
    return connection.execute(sa.update(bulk_actions).where(running).values(changed)).rowcount == 1


def get(connection: Connection, id: str) -> BulkAction | None:
    """The bulk action with this id, or None."""
    return next(iter(_all(connection, sa.select(bulk_actions).where(bulk_actions.c.id == id))), None)


def running(connection: Connection) -> list[BulkAction]:
    """The running bulk actions, oldest first."""
    query = sa.select(bulk_actions).where(bulk_actions.c.state == BulkState.RUNNING.value)
    return _all(connection, query.order_by(bulk_actions.c.requested_at, bulk_actions.c.id))


def newest(connection: Connection, limit: int) -> list[BulkAction]:
    """The newest bulk actions, newest first."""
    order = bulk_actions.c.requested_at.desc(), bulk_actions.c.id
    return _all(connection, sa.select(bulk_actions).order_by(*order).limit(limit))


def actions_of(connection: Connection, bulk: BulkAction) -> dict[str, Action]:
    """Its actions by query id."""
    return {
        action.query_id: action for action in action_rows.all_by_key(connection, bulk.key, bulk.query_ids)
    }


def prune(connection: Connection, before: float) -> None:
    """Delete the bulk actions that ended before this time."""
    connection.execute(sa.delete(bulk_actions).where(bulk_actions.c.ended_at < before))


def _values(bulk: BulkAction) -> dict[str, Any]:
    values = {name: getattr(bulk, name) for name in _FIELDS}
    return values | {"state": bulk.state.value, "query_ids": list(bulk.query_ids)}


def _all(connection: Connection, query: sa.Select[Any]) -> list[BulkAction]:
    rows = connection.execute(query).mappings()
    known = ({name: row[name] for name in _FIELDS} for row in rows)
    return [
        BulkAction(**row | {"state": BulkState(row["state"]), "query_ids": tuple(row["query_ids"])})
        for row in known
    ]
