"""Saved views of the Fleet page, shared by everybody: plain functions on a connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Table
from sqlalchemy.engine import Connection

from controlplane.errors import Conflict
from controlplane.store.tables import CleanText, Seconds, metadata

MAX_VIEWS = 200

saved_views = Table(
    "saved_views",
    metadata,
    Column("name", CleanText, primary_key=True),
    Column("parameters", CleanText, nullable=False),
    Column("saved_by", CleanText, nullable=False),
    Column("saved_at", Seconds, nullable=False),
)


@dataclass(frozen=True)
class SavedView:
    """A view. `parameters`: the query string of the page's address, without `?`."""

    name: str
    parameters: str
    saved_by: str
    saved_at: float


def put(connection: Connection, view: SavedView) -> None:
    """Store the view, or replace the one with its name. Conflict if there are `MAX_VIEWS` others."""
    own = saved_views.c.name == view.name
    connection.execute(sa.delete(saved_views).where(own))
    others = connection.execute(sa.select(sa.func.count()).select_from(saved_views)).scalar_one()
    if others >= MAX_VIEWS:
        raise Conflict(f"there are {MAX_VIEWS} saved views: delete one first", code="too_many_views")
    connection.execute(sa.insert(saved_views).values(asdict(view)))


def delete(connection: Connection, name: str) -> bool:
    """Whether there was a view of this name; it is gone now."""
    return bool(connection.execute(sa.delete(saved_views).where(saved_views.c.name == name)).rowcount)


def all_views(connection: Connection) -> list[SavedView]:
    """All views, by name."""
    rows = connection.execute(sa.select(saved_views)).mappings()
    return sorted((SavedView(**row) for row in rows), key=lambda view: view.name.casefold())
