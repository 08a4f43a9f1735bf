"""Shapes of runs, and how each compares with the one before: plain functions on a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import shapes

#: Of one query so many are kept.
KEPT = 20


@dataclass(frozen=True)
class Shaped:
    """Whose shape it is. `at`: when the run's agent told it, by our clock."""

    run_id: str
    query_id: str
    app: str
    name: str | None
    checkpoint: str | None
    at: float


def put(
    connection: Connection, whose: Shaped, shape: Mapping[str, Any], comparison: Mapping[str, Any] | None
) -> bool:
    """Keep a run's shape; False where it is there already."""
    if of_run(connection, whose.run_id) is not None:
        return False
    values = {
        "run_id": whose.run_id,
        "query_id": whose.query_id,
        "app": whose.app,
        "name": whose.name,
        "checkpoint": whose.checkpoint,
        "at": whose.at,
        "shape": dict(shape),
        "comparison": None if comparison is None else dict(comparison),
    }
    connection.execute(sa.insert(shapes).values(values))
    _thin_out(connection, whose.query_id)
    return True


def _thin_out(connection: Connection, query_id: str) -> None:
    own = shapes.c.query_id == query_id
    newest = sa.select(shapes.c.key).where(own).order_by(shapes.c.at.desc(), shapes.c.key.desc()).limit(KEPT)
    keys = list(connection.execute(newest).scalars())
    connection.execute(sa.delete(shapes).where(own, shapes.c.key.not_in(keys)))


def of_run(connection: Connection, run_id: str) -> dict[str, Any] | None:
    return _one(connection, sa.select(shapes).where(shapes.c.run_id == run_id))


def newest(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The row of the newest run that told its shape."""
    return _one(connection, _latest(sa.select(shapes).where(shapes.c.query_id == query_id)))


def previous(connection: Connection, whose: Shaped) -> dict[str, Any] | None:
    """The shape that a new run follows: of its query; else the last on its checkpoint; else of its app and name.

    A query that is not known yet has the `query_id` "".
    """
    earlier = sa.select(shapes).where(shapes.c.run_id != whose.run_id, shapes.c.at <= whose.at)
    ways = [shapes.c.query_id == whose.query_id]
    if whose.checkpoint:
        ways.append((shapes.c.checkpoint == whose.checkpoint) & (shapes.c.app == whose.app))
    elif whose.name:
        ways.append((shapes.c.app == whose.app) & (shapes.c.name == whose.name))
    found = (_one(connection, _latest(earlier.where(way))) for way in ways)
    return next((row for row in found if row is not None), None)


def forget(connection: Connection, query_ids: Iterable[str]) -> None:
    """These queries are gone."""
    connection.execute(sa.delete(shapes).where(shapes.c.query_id.in_(list(query_ids))))


def _latest(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(shapes.c.at.desc(), shapes.c.key.desc())


def _one(connection: Connection, query: sa.Select[Any]) -> dict[str, Any] | None:
    row = connection.execute(query.limit(1)).mappings().first()
    return dict(row) if row else None
