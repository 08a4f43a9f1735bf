"""Stored desired state of each query; the audit log keeps its history."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Table
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Seconds, metadata
from controlplane.supervision_model import Desired, DesiredState

desired_states = Table(
    "desired_states",
    metadata,
    Column("query_id", CleanText, primary_key=True),
    Column("state", CleanText, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("at", Seconds, nullable=False),
    Column("reason", CleanText, nullable=False),
)
_FIELDS = ("query_id", "state", "actor", "at", "reason")


def put(connection: Connection, wanted: Desired) -> None:
    """Store the desired state of a query in place of the previous one."""
    values = {name: getattr(wanted, name) for name in _FIELDS} | {"state": wanted.state.value}
    known = sa.update(desired_states).where(desired_states.c.query_id == wanted.query_id)
    if connection.execute(known.values(values)).rowcount == 0:
        connection.execute(sa.insert(desired_states).values(values))


def get(connection: Connection, query_id: str) -> Desired | None:
    """The desired state of a query; None where nobody set it."""
    return _all(connection, sa.select(desired_states).where(desired_states.c.query_id == query_id)).get(
        query_id
    )


def all_states(connection: Connection) -> dict[str, Desired]:
    """Every desired state that was set, by query id."""
    return _all(connection, sa.select(desired_states))


def _all(connection: Connection, query: sa.Select[tuple[object, ...]]) -> dict[str, Desired]:
    return {
        row["query_id"]: Desired(
            **{name: row[name] for name in _FIELDS} | {"state": DesiredState(row["state"])}
        )
        for row in connection.execute(query).mappings()
    }
