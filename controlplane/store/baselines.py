"""Baselines as they are kept: plain functions on a connection.

A set comes in chunks, which nobody sees until the last one is there; then it takes the place of the set before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.errors import BodyTooLarge
from controlplane.store.tables import baselines


@dataclass(frozen=True, eq=False)
class StoredBaseline:
    """One query's baseline. `values`: float32, flat; `controlplane.metrics.baselines` knows their shape."""

    query_id: str
    app: str
    query: str
    made_at: float | None
    values: npt.NDArray[np.float32]


#: Queries in a set: 40 MB in memory.
MOST = 5_000


def put(connection: Connection, name: str, chunk: int, chunks: int, found: Iterable[StoredBaseline]) -> bool:
    """Keep a chunk of the set `name`, in place of the same chunk; whether the set is complete and current now.

    What is there of another unfinished set goes: one is published at a time. BodyTooLarge where it has too many
    queries.
    """
    # A set of another number of chunks is another set, whatever its name: it takes nothing from the one that holds.
    name = f"{name}/{chunks}"
    own = baselines.c.set_name == name
    others = sa.not_(own) & sa.not_(baselines.c.current)
    connection.execute(sa.delete(baselines).where(others | (own & (baselines.c.chunk == chunk))))
    # A chunk without queries counts, too: it has one row without a query.
    rows = [_row(name, chunk, one) for one in found] or [_row(name, chunk, None)]
    connection.execute(sa.insert(baselines), rows)
    here = sa.select(sa.func.count(sa.distinct(baselines.c.chunk)), sa.func.count()).where(own)
    known, queries = connection.execute(here).one()
    if queries > MOST:
        raise BodyTooLarge(f"a set has at most {MOST} queries", detail={"limit_queries": MOST})
    if known < chunks:
        return False
    connection.execute(sa.delete(baselines).where(sa.not_(own)))
    connection.execute(sa.update(baselines).where(own).values(current=True))
    return True


def _row(name: str, chunk: int, one: StoredBaseline | None) -> dict[str, object]:
    return {
        "set_name": name,
        "chunk": chunk,
        "current": False,
        "app": one.app if one else "",
        "query": one.query if one else "",
        "query_id": one.query_id if one else "",
        "made_at": one.made_at if one else None,
        "quantiles": zlib.compress(one.values.astype("<f4").tobytes(), 1) if one else b"",
    }


def current(connection: Connection) -> list[StoredBaseline]:
    """The set that holds."""
    rows = connection.execute(
        sa.select(baselines).where(baselines.c.current, baselines.c.query_id != "").order_by(baselines.c.key)
    )
    return [
        StoredBaseline(
            row.query_id,
            row.app,
            row.query,
            row.made_at,
            np.frombuffer(zlib.decompress(row.quantiles), "<f4").astype(np.float32),
        )
        for row in rows
    ]
