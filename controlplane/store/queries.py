"""Queries, runs, agents, progress reports and status changes: plain functions on a connection.

Reads take any connection; `record_statuses` and `retire` need the writer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.model import Run
from controlplane.records import AgentRow, QueryRow, ReportedBatches, RunRow
from controlplane.store.blobs import Unpacker
from controlplane.store.rows import (
    agent_row,
    key_of,
    query_row,
    reported_batches,
    run_of,
    run_row,
    select_runs,
)
from controlplane.store.tables import agents, batches, events, queries, runs
from controlplane.store.tables import status_changes as changes
from controlplane.store.writing.bulk import BulkStatement

#: Spark's progress JSON and the corrected time of its event, Unix seconds.
StoredReport = tuple[dict[str, Any], float]
T = TypeVar("T")
CHUNK = 500
# Statements are built once, as building one costs more than running it.
_RECENT_IDS = (
    sa.select(batches.c.event_id)
    .where(batches.c.query_key == sa.bindparam("query_key"))
    .order_by(batches.c.at.desc(), batches.c.trigger_at.desc(), batches.c.batch_id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_RECORD_STATUSES = BulkStatement(
    sa.insert(changes).from_select(
        ["query_key", "at", "status", "reason"],
        sa.select(
            queries.c.key,
            sa.bindparam("at", type_=changes.c.at.type),
            sa.bindparam("status", type_=changes.c.status.type),
            sa.bindparam("reason", type_=changes.c.reason.type),
        ).where(queries.c.query_id == sa.bindparam("query_id")),
    )
)


# -- queries, runs, agents -------------------------------------------------------------------------


def query_rows(connection: Connection) -> list[QueryRow]:
    """All queries, retired ones included."""
    return [query_row(row) for row in connection.execute(sa.select(queries)).mappings()]


def newest_runs(connection: Connection) -> list[RunRow]:
    """The newest run of each query."""
    query = select_runs().where(runs.c.run_id == queries.c.newest_run)
    return [run_row(row) for row in connection.execute(query).mappings()]


def list_runs(connection: Connection, query_id: str, limit: int = 20) -> list[Run]:
    """Runs of a query, newest first."""
    query = (
        select_runs()
        .where(queries.c.query_id == query_id)
        .order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    return [run_of(row) for row in connection.execute(query).mappings()]


def reported(connection: Connection, query_id: str) -> ReportedBatches:
    """The batches of a query that were reported, with the gaps among them."""
    query = sa.select(queries.c.reported).where(queries.c.query_id == query_id)
    return reported_batches(connection.execute(query).scalar())


def agent_rows(connection: Connection) -> list[AgentRow]:
    """All agents, ended ones included."""
    return [agent_row(row) for row in connection.execute(sa.select(agents)).mappings()]


def other_open_runs(connection: Connection) -> list[RunRow]:
    """Open runs that are not the newest of their query: another driver has started it since, and both may run."""
    query = select_runs().where(
        runs.c.ended_at.is_(None), runs.c.run_id.is_distinct_from(queries.c.newest_run)
    )
    return [run_row(row) for row in connection.execute(query).mappings()]


# -- progress --------------------------------------------------------------------------------------


def read_progress(
    connection: Connection,
    query_id: str,
    start: float,
    end: float,
    limit: int = 2000,
    step: float | None = None,
) -> list[StoredReport]:
    """Progress reports with start <= at <= end, oldest first, thinned before any is unpacked.

    `step`: only the last report of every so many seconds. More than `limit` reports are thinned evenly.
    """
    found = report_index(connection, query_id, start, end)
    if step is not None:
        found = list({row.at // step: row for row in found}.values())
    return reports_of(connection, [row.event_id for row in thin(found, limit)])


def report_index(connection: Connection, query_id: str, start: float, end: float) -> Sequence[Any]:
    """Event id, time, trigger time and batch id of the reports with start <= at <= end, oldest first."""
    query = (
        sa.select(batches.c.event_id, batches.c.at, batches.c.trigger_at, batches.c.batch_id)
        .where(batches.c.query_key == key_of(query_id), batches.c.at >= start, batches.c.at <= end)
        .order_by(batches.c.at, batches.c.trigger_at, batches.c.batch_id)
    )
    return connection.execute(query).all()


def recent_progress(
    connection: Connection, query_keys: Sequence[int], limit: int
) -> Mapping[int, list[StoredReport]]:
    """The newest `limit` reports of each of these queries, oldest first, by the query's key."""
    ids = {key: _recent_ids(connection, key, limit) for key in query_keys}
    found = _reports_by_id(connection, [event_id for known in ids.values() for event_id in known])
    return {key: [found[event_id] for event_id in known if event_id in found] for key, known in ids.items()}


def _recent_ids(connection: Connection, query_key: int, limit: int) -> Sequence[int]:
    found = connection.execute(_RECENT_IDS, {"query_key": query_key, "most": limit})
    return found.scalars().all()[::-1]


def reports_of(connection: Connection, event_ids: Sequence[int]) -> list[StoredReport]:
    """The progress reports of these event ids, in this order."""
    found = _reports_by_id(connection, event_ids)
    return [found[event_id] for event_id in event_ids if event_id in found]


def _reports_by_id(connection: Connection, event_ids: Sequence[int]) -> dict[int, StoredReport]:
    unpacker, found = Unpacker(connection), {}
    for chunk in _chunks(event_ids):
        query = sa.select(events.c.id, events.c.at, events.c.dictionary, events.c.data)
        for row in connection.execute(query.where(events.c.id.in_(chunk))):
            found[row.id] = (unpacker.unpack(row.dictionary, row.data), row.at)
    return found


def thin(values: Sequence[T], limit: int) -> Sequence[T]:
    """At most `limit` evenly spaced values, including the last."""
    if limit <= 0:
        return []
    if len(values) <= limit:
        return values
    return [values[(place + 1) * len(values) // limit - 1] for place in range(limit)]


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def latest_progress(connection: Connection, query_id: str) -> dict[str, Any] | None:
    """The newest progress report of a query as Spark wrote it; None without one."""
    query = (
        sa.select(events.c.dictionary, events.c.data)
        .join(batches, batches.c.event_id == events.c.id)
        .where(batches.c.query_key == key_of(query_id))
        .order_by(batches.c.at.desc(), batches.c.trigger_at.desc(), batches.c.batch_id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return Unpacker(connection).unpack(row.dictionary, row.data) if row else None


def report_of(connection: Connection, query_id: str, run_id: str, batch_id: int) -> dict[str, Any] | None:
    """The newest progress report of a batch as Spark wrote it; None without one."""
    of_run = sa.select(runs.c.key).where(runs.c.run_id == run_id, runs.c.query_key == key_of(query_id))
    query = (
        sa.select(events.c.dictionary, events.c.data)
        .join(batches, batches.c.event_id == events.c.id)
        .where(batches.c.run_key == of_run.scalar_subquery(), batches.c.batch_id == batch_id)
        .order_by(batches.c.trigger_at.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return Unpacker(connection).unpack(row.dictionary, row.data) if row else None


# -- status changes --------------------------------------------------------------------------------------


def record_statuses(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store status changes, each `{"query_id", "at", "status", "reason"}`, in one statement; skip unknown queries."""
    _RECORD_STATUSES.run(connection, rows)


def status_changes(connection: Connection, query_id: str, limit: int = 50) -> list[dict[str, Any]]:
    """Status changes of a query, newest first, each `{"at", "status", "reason"}`."""
    query = (
        sa.select(changes.c.at, changes.c.status, changes.c.reason)
        .where(changes.c.query_key == key_of(query_id))
        .order_by(changes.c.at.desc(), changes.c.key.desc())
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def latest_statuses(connection: Connection) -> dict[str, dict[str, Any]]:
    """The last stored status of each query: query id → `{"at", "status", "reason"}`."""
    newest = sa.select(sa.func.max(changes.c.key)).group_by(changes.c.query_key).scalar_subquery()
    query = (
        sa.select(queries.c.query_id, changes.c.at, changes.c.status, changes.c.reason)
        .join(queries, queries.c.key == changes.c.query_key)
        .where(changes.c.key.in_(newest))
    )
    return {
        row["query_id"]: {"at": row["at"], "status": row["status"], "reason": row["reason"]}
        for row in connection.execute(query).mappings()
    }


def retire(connection: Connection, query_id: str, at: float) -> bool:
    """Retire a query; False if it is unknown."""
    update = sa.update(queries).where(queries.c.query_id == query_id).values(retired_at=at)
    return connection.execute(update).rowcount == 1
