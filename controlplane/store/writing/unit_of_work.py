"""Load the rows that a group of events may concern into a unit of work, and save its changes.

Called by `controlplane.ingest.deduplication` in the writer's transaction. Loading takes a few statements for
thousands of events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.records import AgentRow, References, UnitOfWork, changed
from controlplane.store.rows import (
    agent_row,
    agent_values,
    query_row,
    query_values,
    run_row,
    run_values,
    select_runs,
)
from controlplane.store.tables import agents, queries, runs
from controlplane.store.writing.bulk import BulkStatement

T = TypeVar("T")

# Statements are built once, as building one costs more than running it.
_AGENTS = sa.select(agents).where(agents.c.agent.in_(sa.bindparam("ids", expanding=True)))
_QUERIES = sa.select(queries).where(queries.c.query_id.in_(sa.bindparam("ids", expanding=True)))
_NAMED_RUNS = select_runs().where(runs.c.run_id.in_(sa.bindparam("ids", expanding=True)))
_OPEN_RUNS = select_runs().where(
    queries.c.query_id.in_(sa.bindparam("ids", expanding=True)),
    runs.c.ended_at.is_(None) | (runs.c.run_id == queries.c.newest_run),
)
_RUNS_OF_AGENTS = select_runs().where(
    agents.c.agent.in_(sa.bindparam("ids", expanding=True)),
    runs.c.ended_at.is_(None) | (runs.c.run_id == queries.c.newest_run),
)
_INSERTS = {table: sa.insert(table).returning(table.c.key) for table in (agents, queries, runs)}
_UPDATES = {
    table: BulkStatement(sa.update(table).where(table.c.key == sa.bindparam("row_key")))
    for table in (agents, queries, runs)
}


def load(connection: Connection, references: References) -> UnitOfWork:
    """Load the agents, queries and runs that these events name, and the open runs of those queries."""
    work = UnitOfWork()
    query_ids = references.query_ids | set(_newest_named(connection, references.names))
    _load_runs(connection, work, query_ids, references.run_ids, references.ending_agents)
    query_ids.update(row.run.query_id for row in work.runs.values())
    for row in _found(connection, _QUERIES, query_ids):
        work.queries[row["query_id"]] = query_row(row)
    agent_ids = references.agents | {row.run.agent for row in work.runs.values()}
    work.agents.update(load_agents(connection, agent_ids))
    return work


def load_agents(connection: Connection, ids: Iterable[str]) -> dict[str, AgentRow]:
    """The known ones of these agents, by id."""
    return {row["agent"]: agent_row(row) for row in _found(connection, _AGENTS, ids)}


def _found(connection: Connection, statement: sa.Select[Any], ids: Iterable[str]) -> Iterable[sa.RowMapping]:
    wanted = list(ids)
    return connection.execute(statement, {"ids": wanted}).mappings() if wanted else ()


def _newest_named(connection: Connection, names: Iterable[tuple[str, str | None]]) -> Iterable[str]:
    """The newest query of each (app, name)."""
    for app, name in names:
        query = (
            sa.select(queries.c.query_id)
            .where(queries.c.app == app, queries.c.name == name)
            .order_by(queries.c.described_at.desc())
            .limit(1)
        )
        yield from connection.execute(query).scalars()


def _load_runs(
    connection: Connection, work: UnitOfWork, query_ids: set[str], run_ids: set[str], ending: set[str]
) -> None:
    """Load the named runs, and the newest and open runs of their queries and of ending agents."""
    wanted = ((_NAMED_RUNS, run_ids), (_OPEN_RUNS, query_ids), (_RUNS_OF_AGENTS, ending))
    for statement, ids in wanted:
        for row in _found(connection, statement, ids):
            work.runs[row["run_id"]] = run_row(row)


def save(connection: Connection, work: UnitOfWork) -> None:
    """Write the changed rows; new rows get their keys, in the unit of work too."""
    _save_agents(connection, work)
    _save_queries(connection, work)
    _save_runs(connection, work)


def _save_agents(connection: Connection, work: UnitOfWork) -> None:
    old: list[dict[str, Any]] = []
    for name, row in _changed(work, work.agents):
        if row.agent.key == 0:
            key = _insert(connection, agents, agent_values(row))
            work.agents[name] = replace(row, agent=replace(row.agent, key=key))
        else:
            old.append(agent_values(row, work.before[name]) | {"row_key": row.agent.key})
    _update(connection, agents, old)


def _save_queries(connection: Connection, work: UnitOfWork) -> None:
    old: list[dict[str, Any]] = []
    for name, row in _changed(work, work.queries):
        if row.key == 0:
            work.queries[name] = replace(row, key=_insert(connection, queries, query_values(row)))
        else:
            old.append(query_values(row, work.before[name]) | {"row_key": row.key})
    _update(connection, queries, old)


def _save_runs(connection: Connection, work: UnitOfWork) -> None:
    old: list[dict[str, Any]] = []
    for name, row in _changed(work, work.runs):
        known = None if row.run.key == 0 else work.before[name]
        values = run_values(row, known)
        run = row.run
        for id_name, key_name, key_of in (
            ("query_id", "query_key", lambda query_id: work.queries[query_id].key),
            ("agent", "agent_key", lambda agent: work.agents[agent].agent.key),
        ):
            if id_name in values:
                values[key_name] = key_of(values.pop(id_name))
        if known is None:
            run = replace(run, key=_insert(connection, runs, values))
        else:
            old.append(values | {"row_key": run.key})
        work.runs[name] = changed(row, run=run, stored_event_at=row.last_event_at)
    _update(connection, runs, old)


def _changed(work: UnitOfWork, rows: dict[str, T]) -> list[tuple[str, T]]:
    return [(name, row) for name, row in rows.items() if name in work.changed]


def _insert(connection: Connection, table: sa.Table, values: dict[str, Any]) -> int:
    del values["key"]
    return int(connection.execute(_INSERTS[table], values).scalar_one())


def _update(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Write the values that differ: one statement for each set of columns."""
    alike: dict[frozenset[str], list[dict[str, Any]]] = {}
    for row in rows:
        alike.setdefault(frozenset(row), []).append(row)
    for columns, group in alike.items():
        if len(columns) > 1:
            _UPDATES[table].run(connection, group)
