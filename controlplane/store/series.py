"""Samples of series that cannot be computed again from events: plain functions on a connection.

A row holds the series of one metric over start < t <= end as a blob (`controlplane.metrics.series.stored_samples`). The
row without a name holds no samples: it states that the time range is stored.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Key, Seconds, metadata

table = sa.Table(
    "series_samples",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    sa.Column("start", Seconds, nullable=False),
    sa.Column("end", Seconds, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index(None, "name", "end"),
    sa.Index(None, "end"),
)
#: Name of the rows that state which time ranges are stored.
COVERED = ""


def insert(connection: Connection, start: float, end: float, blobs: Mapping[str, bytes]) -> None:
    """Store the samples of one time range, by metric name; replaces the same range."""
    connection.execute(sa.delete(table).where(table.c.start == start, table.c.end == end))
    rows = [{"name": name, "start": start, "end": end, "data": data} for name, data in blobs.items()]
    connection.execute(sa.insert(table), [{"name": COVERED, "start": start, "end": end, "data": b""}, *rows])


def stored_until(connection: Connection) -> float | None:
    """The end of the newest stored range, Unix seconds; None without any."""
    return connection.execute(sa.select(sa.func.max(table.c.end)).where(table.c.name == COVERED)).scalar()


def first_stored(connection: Connection, name: str) -> float | None:
    """The start of the oldest stored range of a metric, Unix seconds; None without any."""
    return connection.execute(sa.select(sa.func.min(table.c.start)).where(table.c.name == name)).scalar()


def ranges(connection: Connection, name: str, start: float, end: float) -> list[tuple[float, float, bytes]]:
    """Stored ranges of a metric that overlap start < t <= end, oldest first: start, end, blob."""
    where = (table.c.name == name) & (table.c.end > start) & (table.c.start < end)
    query = sa.select(table.c.start, table.c.end, table.c.data).where(where).order_by(table.c.start)
    return [(row.start, row.end, row.data) for row in connection.execute(query)]


def prune(connection: Connection, cutoff: float) -> int:
    """Delete ranges that ended before `cutoff` (Unix seconds); returns their number."""
    return connection.execute(sa.delete(table).where(table.c.end < cutoff)).rowcount
