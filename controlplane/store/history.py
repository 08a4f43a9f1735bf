"""Reads of queries over a time range: runs, progress reports, idle times and status changes.

Plain functions on a connection; `controlplane.metrics.series.replay` computes past samples from them.
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
    """The rows of these queries."""
    return [query_row(row) for row in _mapped(connection, _QUERIES, "ids", list(query_ids))]


def runs_until(connection: Connection, keys: Sequence[int], end: float) -> list[RunRow]:
    """Runs of these queries that started up to `end`, in the order of their starts."""
    return [run_row(row) for row in _mapped(connection, _RUNS, "keys", keys, end=end)]


def status_changes(
    connection: Connection, keys: Sequence[int], start: float, end: float
) -> list[tuple[int, float, str]]:
    """(query key, time, status) of the status at `start` and of every change with start < t <= end."""
    found = _mapped(connection, _CHANGES, "keys", keys, start=start, end=end)
    return [(row["query_key"], row["at"], row["status"]) for row in found]


def count_reports(
    connection: Connection, keys: Sequence[int], start: float, end: float, every: float | None = None
) -> int:
    """Number of progress reports with start < t <= end; with `every`, the number that `reports` would read."""
    if every is not None:
        return sum(len(_ids(connection, key, start, end, every)) for key in keys)
    found = _mapped(connection, _COUNT, "keys", keys, start=start, end=end)
    return sum(int(row["reports"]) for row in found)


def report_times(connection: Connection, keys: Sequence[int], start: float) -> list[tuple[int, float]]:
    """(query key, time) of each report later than `start`."""
    found = _mapped(connection, _TIMES, "keys", keys, start=start)
    return [(row["query_key"], row["at"]) for row in found]


def reports(
    connection: Connection, key: int, start: float, end: float, before: int, every: float | None = None
) -> list[StoredReport]:
    """Progress reports of a query with start < t <= end and up to `before` earlier ones, oldest first.

    `every`: only the last two reports of each interval of so many seconds.
    """
    query = sa.select(batches.c.event_id).where(batches.c.query_key == key, batches.c.at <= start)
    earlier = query.order_by(*(column.desc() for column in _ORDER)).limit(before)
    ids = connection.execute(earlier).scalars().all()[::-1] if before else []
    return reports_of(connection, [*ids, *_ids(connection, key, start, end, every)])


def _ids(connection: Connection, key: int, start: float, end: float, every: float | None) -> list[int]:
    """Event ids of the reports with start < t <= end; with `every`, the last two of each interval (open, closed]."""
    query = (
        sa.select(batches.c.event_id, batches.c.at)
        .where(batches.c.query_key == key, batches.c.at > start, batches.c.at <= end)
        .order_by(*_ORDER)
    )
    rows = connection.execute(query).all()
    if every is None:
        return [row.event_id for row in rows]
    intervals: dict[float, list[int]] = {}
    for row in rows:
        intervals.setdefault(-(-row.at // every), []).append(row.event_id)
    return [event_id for ids in intervals.values() for event_id in ids[-2:]]


def idle_times(connection: Connection, key: int, start: float, end: float) -> list[tuple[int | None, float]]:
    """(run key, time) of each trigger without new data up to `end`, from the last batch before `start` on.

    Idle events show them, and reports that only repeat a batch.
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
    """(time, `exception`) of each failed start later than `start`."""
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
    """Event id of the last report up to `start`, 0 without one. Later events have higher ids."""
    last = sa.select(sa.func.max(batches.c.event_id)).where(batches.c.query_key == key, batches.c.at <= start)
    return connection.execute(last).scalar() or 0


def _mapped(
    connection: Connection, statement: Any, name: str, values: Sequence[Any], **given: Any
) -> Iterator[Any]:
    """Execute the statement for `CHUNK` values at a time and yield the rows."""
    for begin in range(0, len(values), CHUNK):
        parameters = {name: list(values[begin : begin + CHUNK]), **given}
        yield from connection.execute(statement, parameters).mappings()
