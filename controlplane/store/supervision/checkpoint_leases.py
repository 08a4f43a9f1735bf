"""Stored leases of checkpoints: the driver that writes to each, with a number that rises from driver to driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Table
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Seconds, metadata
from controlplane.supervision_model import CheckpointLease

checkpoint_leases = Table(
    "checkpoint_leases",
    metadata,
    Column("checkpoint", CleanText, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("query_id", CleanText, nullable=False),
    Column("run_id", CleanText, nullable=False),
    Column("agent", CleanText, nullable=False),
    Column("app", CleanText, nullable=False),
    Column("taken_at", Seconds, nullable=False),
    Column("previous_app", CleanText),
)
_FIELDS = tuple(field.name for field in fields(CheckpointLease))


def all_leases(connection: Connection) -> list[CheckpointLease]:
    """Every lease, by checkpoint."""
    query = sa.select(checkpoint_leases).order_by(checkpoint_leases.c.checkpoint)
    rows = connection.execute(query).mappings()
    return [CheckpointLease(**{name: row[name] for name in _FIELDS}) for row in rows]


def put(connection: Connection, lease: CheckpointLease) -> bool:
    """Store a lease; False if the store has one with a higher number."""
    values = {name: getattr(lease, name) for name in _FIELDS}
    mine = checkpoint_leases.c.checkpoint == lease.checkpoint
    older = checkpoint_leases.c.number <= lease.number
    if connection.execute(sa.update(checkpoint_leases).where(mine, older).values(values)).rowcount == 1:
        return True
    if connection.execute(sa.select(checkpoint_leases.c.number).where(mine)).first() is not None:
        return False
    connection.execute(sa.insert(checkpoint_leases).values(values))
    return True


def delete(connection: Connection, checkpoints: Iterable[str]) -> None:
    """Delete the leases of these checkpoints."""
    for checkpoint in checkpoints:
        connection.execute(sa.delete(checkpoint_leases).where(checkpoint_leases.c.checkpoint == checkpoint))
