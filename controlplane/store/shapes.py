"""Query shapes of runs and their comparisons with the previous run: plain functions on a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import shapes

#: Shapes stored per query.
MAX_SHAPES = 20


@dataclass(frozen=True)
class ShapeOwner:
    """The run that a shape belongs to. `at`: when its agent reported the shape, Unix seconds by the server's clock."""

    run_id: str
    query_id: str
    app: str
    name: str | None
    checkpoint: str | None
    at: float


def put(
    connection: Connection, owner: ShapeOwner, shape: Mapping[str, Any], comparison: Mapping[str, Any] | None
) -> bool:
    """Store the shape of a run; False if the run has one already."""
    if of_run(connection, owner.run_id) is not None:
        return False
    values = {
        "run_id": owner.run_id,
        "query_id": owner.query_id,
        "app": owner.app,
        "name": owner.name,
        "checkpoint": owner.checkpoint,
        "at": owner.at,
        "shape": dict(shape),
        "comparison": None if comparison is None else dict(comparison),
    }
    connection.execute(sa.insert(shapes).values(values))
    _delete_old(connection, owner.query_id)
    return True


def _delete_old(connection: Connection, query_id: str) -> None:
    own = shapes.c.query_id == query_id
    newest = (
        sa.select(shapes.c.key).where(own).order_by(shapes.c.at.desc(), shapes.c.key.desc()).limit(MAX_SHAPES)
    )
    keys = list(connection.execute(newest).scalars())
    connection.execute(sa.delete(shapes).where(own, shapes.c.key.not_in(keys)))


def of_run(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """The row of a run's shape; None without one."""
    return _first(connection, sa.select(shapes).where(shapes.c.run_id == run_id))


def newest(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The row of the newest run owner shape was reported."""
    return _first(connection, _latest(sa.select(shapes).where(shapes.c.query_id == query_id)))


def previous(connection: Connection, owner: ShapeOwner) -> dict[str, Any] | None:
    """The shape to compare a new run's with: of its query, else of its checkpoint, else of its app and name.

    A query that is not known yet has the `query_id` "".
    """
    earlier = sa.select(shapes).where(shapes.c.run_id != owner.run_id, shapes.c.at <= owner.at)
    conditions = [shapes.c.query_id == owner.query_id]
    if owner.checkpoint:
        conditions.append((shapes.c.checkpoint == owner.checkpoint) & (shapes.c.app == owner.app))
    elif owner.name:
        conditions.append((shapes.c.app == owner.app) & (shapes.c.name == owner.name))
    found = (_first(connection, _latest(earlier.where(condition))) for condition in conditions)
    return next((row for row in found if row is not None), None)


def delete_queries(connection: Connection, query_ids: Iterable[str]) -> None:
    """Delete the shapes of these queries."""
    connection.execute(sa.delete(shapes).where(shapes.c.query_id.in_(list(query_ids))))


def _latest(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(shapes.c.at.desc(), shapes.c.key.desc())


def _first(connection: Connection, query: sa.Select[Any]) -> dict[str, Any] | None:
    row = connection.execute(query.limit(1)).mappings().first()
    return dict(row) if row else None
