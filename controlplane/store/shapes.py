"""Query shapes of runs and their comparisons with the baseline: plain functions on a connection.

The baseline is the shape of the newest run that committed a batch on the checkpoint: a run that failed before
left nothing that a later run must fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import runs, shapes

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
    """Delete all but the newest MAX_SHAPES and the baseline, which failed starts must not displace."""
    own = shapes.c.query_id == query_id
    newest = _latest(sa.select(shapes.c.key).where(own)).limit(MAX_SHAPES)
    baseline = _latest(sa.select(shapes.c.key).where(own, _committed())).limit(1)
    keys = [*connection.execute(newest).scalars(), *connection.execute(baseline).scalars()]
    connection.execute(sa.delete(shapes).where(own, shapes.c.key.not_in(keys)))


def of_run(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """The row of a run's shape; None without one."""
    return _first(connection, sa.select(shapes).where(shapes.c.run_id == run_id))


def newest(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The row of the newest run whose shape was reported."""
    return _first(connection, _latest(sa.select(shapes).where(shapes.c.query_id == query_id)))


def newest_comparisons(connection: Connection) -> list[tuple[str, str, dict[str, Any] | None]]:
    """(query id, run id, comparison) of the newest shape of each query."""
    other = shapes.alias()
    newest = sa.select(sa.func.max(other.c.at)).where(other.c.query_id == shapes.c.query_id).scalar_subquery()
    query = sa.select(shapes.c.query_id, shapes.c.run_id, shapes.c.comparison).where(shapes.c.at == newest)
    return [(row.query_id, row.run_id, row.comparison) for row in connection.execute(query)]


def baseline(connection: Connection, owner: ShapeOwner) -> dict[str, Any] | None:
    """The shape to compare a new run's with: of the newest run that committed a batch on its checkpoint; or None.

    A checkpoint is identified by its query id. Where that is not known (`query_id` ""): of the app's newest such run
    with this checkpoint path, or, without a path, with this name.
    """
    if owner.query_id:
        same = shapes.c.query_id == owner.query_id
    elif owner.checkpoint:
        same = (shapes.c.checkpoint == owner.checkpoint) & (shapes.c.app == owner.app)
    elif owner.name:
        same = (shapes.c.app == owner.app) & (shapes.c.name == owner.name)
    else:
        return None
    earlier = sa.select(shapes).where(shapes.c.run_id != owner.run_id, shapes.c.at <= owner.at)
    return _first(connection, _latest(earlier.where(same, _committed())))


def _committed() -> sa.ColumnElement[bool]:
    """Whether the shape's run committed a batch. A run that retention has deleted is taken for one that did."""
    run = sa.select(runs.c.key).where(runs.c.run_id == shapes.c.run_id)
    return sa.exists(run.where(runs.c.last_batch_id.is_not(None))) | ~sa.exists(run)


def delete_queries(connection: Connection, query_ids: Iterable[str]) -> None:
    """Delete the shapes of these queries."""
    connection.execute(sa.delete(shapes).where(shapes.c.query_id.in_(list(query_ids))))


def _latest(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(shapes.c.at.desc(), shapes.c.key.desc())


def _first(connection: Connection, query: sa.Select[Any]) -> dict[str, Any] | None:
    row = connection.execute(query.limit(1)).mappings().first()
    return dict(row) if row else None
