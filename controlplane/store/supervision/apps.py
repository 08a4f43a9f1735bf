"""Stored applications: what was declared, what is desired, the newest driver and the newest action.

Plain functions on a connection; the caller, `controlplane.apps.service`, decides what the JSON columns mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Json, Key, Seconds, metadata

#: `spec`: the declaration, with secrets of its environment. `declared_desired`: the desired state in the file.
apps = sa.Table(
    "apps",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("name", CleanText, nullable=False, unique=True),
    sa.Column("spec", Json, nullable=False),
    sa.Column("declared_at", Seconds, nullable=False),
    sa.Column("declared_by", CleanText, nullable=False),
    sa.Column("declared_desired", CleanText, nullable=False),
    sa.Column("desired", CleanText, nullable=False),
    sa.Column("desired_at", Seconds, nullable=False),
    sa.Column("desired_by", CleanText, nullable=False),
    sa.Column("driver", Json),
    sa.Column("action", Json),
)


@dataclass(frozen=True)
class AppRow:
    """A row of the table; JSON columns as they are."""

    name: str
    spec: Mapping[str, Any]
    declared_at: float
    declared_by: str
    declared_desired: str
    desired: str
    desired_at: float
    desired_by: str
    driver: Mapping[str, Any] | None = None
    action: Mapping[str, Any] | None = None


_COLUMNS = tuple(apps.c[field.name] for field in fields(AppRow))


def all_apps(connection: Connection) -> list[AppRow]:
    """Every application, by name."""
    rows = connection.execute(sa.select(*_COLUMNS).order_by(apps.c.name)).mappings()
    return [AppRow(**row) for row in rows]


def get(connection: Connection, name: str) -> AppRow | None:
    """The application of this name, or None."""
    row = connection.execute(sa.select(*_COLUMNS).where(apps.c.name == name)).mappings().first()
    return AppRow(**row) if row else None


def put(connection: Connection, row: AppRow) -> None:
    """Store an application, or replace it."""
    values = {field.name: getattr(row, field.name) for field in fields(AppRow)}
    changed = connection.execute(sa.update(apps).where(apps.c.name == row.name).values(values)).rowcount
    if changed == 0:
        connection.execute(sa.insert(apps).values(values))


def delete(connection: Connection, name: str) -> None:
    """Remove an application."""
    connection.execute(sa.delete(apps).where(apps.c.name == name))
