"""Stored baselines: plain functions on a connection.

A set arrives in chunks. It becomes visible when its last chunk is stored and then replaces the previous set.
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
    """The baseline of a query. `values`: flat float32; `controlplane.metrics.baselines` defines their shape."""

    query_id: str
    app: str
    query: str
    made_at: float | None
    values: npt.NDArray[np.float32]


#: Queries in a set; they take 40 MB of memory.
MAX_QUERIES = 5_000


def put_chunk(
    connection: Connection, name: str, chunk: int, chunks: int, found: Iterable[StoredBaseline]
) -> bool:
    """Store or replace a chunk of the set `name`; True if the set is complete and therefore current now.

    Chunks of another incomplete set are deleted, as one set is published at a time. BodyTooLarge if the set has more
    than `MAX_QUERIES` queries.
    """
    # A set with another number of chunks is another set, even under the same name, and leaves the current one alone.
    name = f"{name}/{chunks}"
    own = baselines.c.set_name == name
    others = sa.not_(own) & sa.not_(baselines.c.current)
    connection.execute(sa.delete(baselines).where(others | (own & (baselines.c.chunk == chunk))))
    # A chunk without queries counts as well: it is stored as a row without a query.
    rows = [_row(name, chunk, baseline) for baseline in found] or [_row(name, chunk, None)]
    connection.execute(sa.insert(baselines), rows)
    stored = sa.select(sa.func.count(sa.distinct(baselines.c.chunk)), sa.func.count()).where(own)
    known, queries = connection.execute(stored).one()
    if queries > MAX_QUERIES:
        raise BodyTooLarge(f"a set has at most {MAX_QUERIES} queries", detail={"limit_queries": MAX_QUERIES})
    if known < chunks:
        return False
    connection.execute(sa.delete(baselines).where(sa.not_(own)))
    connection.execute(sa.update(baselines).where(own).values(current=True))
    return True


def _row(name: str, chunk: int, baseline: StoredBaseline | None) -> dict[str, object]:
    return {
        "set_name": name,
        "chunk": chunk,
        "current": False,
        "app": baseline.app if baseline else "",
        "query": baseline.query if baseline else "",
        "query_id": baseline.query_id if baseline else "",
        "made_at": baseline.made_at if baseline else None,
        "quantiles": zlib.compress(baseline.values.astype("<f4").tobytes(), 1) if baseline else b"",
    }


def current(connection: Connection) -> list[StoredBaseline]:
    """The baselines of the current set."""
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
