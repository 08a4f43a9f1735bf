"""What changed in the store since an event: the standby's reads, for `controlplane.failover.follower`.

Event ids ascend in the order of the commits, as one server writes at a time. Agents, queries and runs change with
their events, so the ids of the new events lead to all changed rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.records import AgentRow, QueryRow, RunRow
from controlplane.store.blobs import Unpacker
from controlplane.store.queries import StoredReport
from controlplane.store.rows import agent_row, query_row, run_row, select_runs
from controlplane.store.tables import agents, batches, counters, events, queries, runs
from controlplane.store.tables import status_changes as changes


def last_event(connection: Connection) -> int:
    """The id of the last stored event; 0 before the first."""
    query = sa.select(counters.c.value).where(counters.c.name == "events")
    return int(connection.execute(query).scalar() or 0)


def changed_rows(
    connection: Connection, after: int, until: int
) -> tuple[list[AgentRow], list[QueryRow], list[RunRow]]:
    """Agents, queries and newest runs that the events with after < id <= until may have changed, as they are now."""
    within = sa.select(events.c.agent_key, events.c.query_key).where(
        events.c.id > after, events.c.id <= until
    )
    found = connection.execute(within.distinct()).all()
    agent_keys = {row.agent_key for row in found}
    query_keys = {row.query_key for row in found if row.query_key is not None}
    # A status event lists all queries of its driver and names none.
    newest = runs.c.run_id == queries.c.newest_run
    concerned = runs.c.agent_key.in_(agent_keys) | runs.c.query_key.in_(query_keys)
    run_rows = connection.execute(select_runs().where(newest, concerned)).mappings().all()
    named = {row["query_id"] for row in run_rows}
    of_queries = sa.select(queries).where(queries.c.key.in_(query_keys) | queries.c.query_id.in_(named))
    of_agents = sa.select(agents).where(agents.c.key.in_(agent_keys))
    return (
        [agent_row(row) for row in connection.execute(of_agents).mappings()],
        [query_row(row) for row in connection.execute(of_queries).mappings()],
        [run_row(row) for row in run_rows],
    )


def reports(connection: Connection, after: int, until: int) -> list[tuple[str, StoredReport]]:
    """The progress reports with after < id <= until, oldest first, each with its query's id."""
    query = (
        sa.select(queries.c.query_id, events.c.at, events.c.dictionary, events.c.data)
        .join(batches, batches.c.event_id == events.c.id)
        .join(queries, queries.c.key == batches.c.query_key)
        .where(batches.c.event_id > after, batches.c.event_id <= until)
        .order_by(batches.c.event_id)
    )
    unpacker = Unpacker(connection)
    return [
        (row.query_id, (unpacker.unpack(row.dictionary, row.data), row.at))
        for row in connection.execute(query)
    ]


def known_queries(connection: Connection) -> dict[str, float | None]:
    """Every query's id and when it was retired."""
    return {
        row.query_id: row.retired_at
        for row in connection.execute(sa.select(queries.c.query_id, queries.c.retired_at))
    }


def known_agents(connection: Connection) -> set[str]:
    """Every agent's id."""
    return set(connection.execute(sa.select(agents.c.agent)).scalars())


def last_status_change(connection: Connection) -> int:
    """The key of the last stored status change; 0 before the first."""
    return int(connection.execute(sa.select(sa.func.max(changes.c.key))).scalar() or 0)


def status_changes_after(connection: Connection, key: int) -> Iterable[dict[str, Any]]:
    """Status changes with a greater key, oldest first, each `{"key", "query_id", "at", "status", "reason"}`."""
    query = (
        sa.select(changes.c.key, queries.c.query_id, changes.c.at, changes.c.status, changes.c.reason)
        .join(queries, queries.c.key == changes.c.query_key)
        .where(changes.c.key > key)
        .order_by(changes.c.key)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
