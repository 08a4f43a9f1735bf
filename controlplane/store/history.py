"""What was stored of queries over a stretch of time: their runs, reports, rests and changes of status.

Plain functions on a connection, read only; `controlplane.metrics.series.replay` makes the figures of the past from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.records import QueryRow, RunRow
from controlplane.store.blobs import Unpacker
from controlplane.store.queries import CHUNK, StoredReport, reports_of
from controlplane.store.rows import query_row, run_row, select_runs
from controlplane.store.tables import batches, events, queries, runs
from controlplane.store.tables import status_changes as changes

_ORDER = (batches.c.at, batches.c.trigger_at, batches.c.batch_id)
_KEYS: sa.BindParameter[Any] = sa.bindparam("keys", expanding=True)
_QUERIES = sa.select(queries).where(queries.c.query_id.in_(sa.bindparam("ids", expanding=True)))
_RUNS = (
    select_runs()
    .where(runs.c.query_key.in_(_KEYS), runs.c.started_at <= sa.bindparam("end"))
    .order_by(runs.c.started_at, runs.c.run_id)
)
_COUNT = sa.select(sa.func.count().label("reports")).where(
    batches.c.query_key.in_(_KEYS), batches.c.at > sa.bindparam("start"), batches.c.at <= sa.bindparam("end")
)
_TIMES = (
    sa.select(batches.c.query_key, batches.c.at)
    .where(batches.c.query_key.in_(_KEYS), batches.c.at > sa.bindparam("start"))
    .order_by(batches.c.at)
)
_STANDING = (
    sa.select(sa.func.max(changes.c.key))
    .where(changes.c.query_key.in_(_KEYS), changes.c.at <= sa.bindparam("start"))
    .group_by(changes.c.query_key)
)
_CHANGES = (
    sa.select(changes.c.query_key, changes.c.at, changes.c.status)
    .where(
        changes.c.key.in_(_STANDING)
        | (
            changes.c.query_key.in_(_KEYS)
            & (changes.c.at > sa.bindparam("start"))
            & (changes.c.at <= sa.bindparam("end"))
        )
    )
    .order_by(changes.c.at, changes.c.key)
)


def query_rows(connection: Connection, query_ids: Iterable[str]) -> list[QueryRow]:
    """These queries as they are now."""
    return [query_row(row) for row in _mapped(connection, _QUERIES, "ids", list(query_ids))]


def runs_until(connection: Connection, keys: Sequence[int], end: float) -> list[RunRow]:
    """All runs of these queries that began by then, in the order of their starts."""
    return [run_row(row) for row in _mapped(connection, _RUNS, "keys", keys, end=end)]


def status_changes(
    connection: Connection, keys: Sequence[int], start: float, end: float
) -> list[tuple[int, float, str]]:
    """Query, time and status of every change of start < t <= end, after the one that stood at `start`."""
    found = _mapped(connection, _CHANGES, "keys", keys, start=start, end=end)
    return [(row["query_key"], row["at"], row["status"]) for row in found]


def count_reports(
    connection: Connection, keys: Sequence[int], start: float, end: float, every: float | None = None
) -> int:
    """How many reports of these queries there are with start < t <= end; `every`: how many `reports` would read."""
    if every is not None:
        return sum(len(_ids(connection, key, start, end, every)) for key in keys)
    found = _mapped(connection, _COUNT, "keys", keys, start=start, end=end)
    return sum(int(row["reports"]) for row in found)


def report_times(connection: Connection, keys: Sequence[int], start: float) -> list[tuple[int, float]]:
    """Query and time of each report later than `start`."""
    found = _mapped(connection, _TIMES, "keys", keys, start=start)
    return [(row["query_key"], row["at"]) for row in found]


def reports(
    connection: Connection, key: int, start: float, end: float, before: int, every: float | None = None
) -> list[StoredReport]:
    """Reports of a query with start < t <= end, and up to `before` earlier ones; oldest first.

    `every`: only the last two of each so many seconds.
    """
    query = sa.select(batches.c.event_id).where(batches.c.query_key == key, batches.c.at <= start)
    earlier = query.order_by(*(column.desc() for column in _ORDER)).limit(before)
    ids = connection.execute(earlier).scalars().all()[::-1] if before else []
    return reports_of(connection, [*ids, *_ids(connection, key, start, end, every)])


def _ids(connection: Connection, key: int, start: float, end: float, every: float | None) -> list[int]:
    """Events of the reports with start < t <= end; of each `every` seconds, up to their end, the last two."""
    query = (
        sa.select(batches.c.event_id, batches.c.at)
        .where(batches.c.query_key == key, batches.c.at > start, batches.c.at <= end)
        .order_by(*_ORDER)
    )
    rows = connection.execute(query).all()
    if every is None:
        return [row.event_id for row in rows]
    places: dict[float, list[int]] = {}
    for row in rows:
        places.setdefault(-(-row.at // every), []).append(row.event_id)
    return [event_id for ids in places.values() for event_id in ids[-2:]]


def idle_times(connection: Connection, key: int, start: float, end: float) -> list[tuple[int | None, float]]:
    """Run and time of each sign up to `end` that a trigger found nothing, from the last batch before `start` on.

    Those signs are idle events, and reports that only repeat a batch.
    """
    since = _last_report(connection, key, start)
    indexed = sa.select(batches.c.event_id).where(batches.c.event_id == events.c.id).exists()
    query = (
        sa.select(events.c.run_key, events.c.at)
        .where(
            events.c.query_key == key,
            events.c.id > since,
            events.c.at <= end,
            (events.c.type == "idle") | ((events.c.type == "progress") & ~indexed),
        )
        .order_by(events.c.at)
    )
    return [(row.run_key, row.at) for row in connection.execute(query)]


def failed_starts(connection: Connection, key: int, start: float) -> list[tuple[float, Any]]:
    """Time and `exception` of each start later than `start` that failed."""
    query = (
        sa.select(events.c.at, events.c.dictionary, events.c.data)
        .where(
            events.c.query_key == key,
            events.c.id > _last_report(connection, key, start),
            events.c.at > start,
            events.c.type == "start_failed",
        )
        .order_by(events.c.at)
    )
    unpacker = Unpacker(connection)
    rows = connection.execute(query)
    return [(row.at, unpacker.unpack(row.dictionary, row.data).get("exception")) for row in rows]


def _last_report(connection: Connection, key: int, start: float) -> int:
    """Id of the last report up to `start`; 0 where there is none. What came later has a higher one."""
    last = sa.select(sa.func.max(batches.c.event_id)).where(batches.c.query_key == key, batches.c.at <= start)
    return connection.execute(last).scalar() or 0


def _mapped(
    connection: Connection, statement: Any, name: str, values: Sequence[Any], **given: Any
) -> Iterator[Any]:
    """Rows for so many values at a time as a statement takes."""
    for begin in range(0, len(values), CHUNK):
        parameters = {name: list(values[begin : begin + CHUNK]), **given}
        yield from connection.execute(statement, parameters).mappings()
