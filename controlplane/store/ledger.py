"""Loads the rows that a group of events may concern, and saves what the events changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.ledger import Ledger
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
from controlplane.told import Told


def load(connection: Connection, told: Sequence[Told]) -> Ledger:
    """Agents, queries and runs that these events name, with the open runs beside them."""
    ledger = Ledger()
    speaking = {one.event.agent for one in told}
    ending = {one.event.agent for one in told if one.event.type == "app_ended"}
    query_ids = set(_named_queries(told))
    run_ids = set(_named_runs(told))
    for app, name in {_called(one) for one in told if one.event.type == "start_failed"}:
        query_id = _newest_called(connection, app, name)
        if query_id is not None:
            ledger.named[app, name] = query_id
            query_ids.add(query_id)
    _load_runs(connection, ledger, query_ids, run_ids, ending)
    query_ids.update(row.run.query_id for row in ledger.runs.values())
    speaking.update(row.run.agent for row in ledger.runs.values())
    for row in connection.execute(sa.select(queries).where(queries.c.query_id.in_(query_ids))).mappings():
        ledger.queries[row["query_id"]] = query_row(row)
    for row in connection.execute(sa.select(agents).where(agents.c.agent.in_(speaking))).mappings():
        ledger.agents[row["agent"]] = agent_row(row)
    return ledger


def _named_queries(told: Iterable[Told]) -> Iterable[str]:
    for one in told:
        if one.query_id is not None:
            yield one.query_id
        for entry in one.entries:
            yield entry.query_id


def _named_runs(told: Iterable[Told]) -> Iterable[str]:
    for one in told:
        if one.run_id is not None:
            yield one.run_id
        for entry in one.entries:
            yield entry.status.run_id


def _called(told: Told) -> tuple[str, str]:
    name = told.event.data.get("name")
    return told.event.app.name, name if isinstance(name, str) else ""


def _newest_called(connection: Connection, app: str, name: str) -> str | None:
    query = (
        sa.select(queries.c.query_id)
        .where(queries.c.app == app, queries.c.name == name)
        .order_by(queries.c.told_at.desc())
        .limit(1)
    )
    return connection.execute(query).scalar()


def _load_runs(
    connection: Connection, ledger: Ledger, query_ids: set[str], run_ids: set[str], ending: set[str]
) -> None:
    """The runs named, and of their queries the newest and the open ones; of ending agents the open ones."""
    beside = queries.c.query_id.in_(query_ids) & (
        runs.c.ended_at.is_(None) | (runs.c.run_id == queries.c.newest_run)
    )
    wanted: list[Any] = [runs.c.run_id.in_(run_ids), beside]
    if ending:
        wanted.append(agents.c.agent.in_(ending) & runs.c.ended_at.is_(None))
    for condition in wanted:
        for row in connection.execute(select_runs().where(condition)).mappings():
            ledger.runs[row["run_id"]] = run_row(row)


def save(connection: Connection, ledger: Ledger) -> None:
    """Write the changed rows; new ones get their keys, in the ledger too."""
    _save_agents(connection, ledger)
    _save_queries(connection, ledger)
    _save_runs(connection, ledger)


def _save_agents(connection: Connection, ledger: Ledger) -> None:
    changed = [row for name, row in ledger.agents.items() if name in ledger.changed]
    for row in changed:
        if row.agent.key == 0:
            key = _insert(connection, agents, agent_values(row))
            ledger.agents[row.agent.agent] = replace(row, agent=replace(row.agent, key=key))
    _update(connection, agents, [agent_values(row) for row in changed if row.agent.key])


def _save_queries(connection: Connection, ledger: Ledger) -> None:
    changed = [row for name, row in ledger.queries.items() if name in ledger.changed]
    for row in changed:
        if row.key == 0:
            ledger.queries[row.query_id] = replace(row, key=_insert(connection, queries, query_values(row)))
    _update(connection, queries, [query_values(row) for row in changed if row.key])


def _save_runs(connection: Connection, ledger: Ledger) -> None:
    old: list[dict[str, Any]] = []
    for name, row in list(ledger.runs.items()):
        if name not in ledger.changed:
            continue
        keys = ledger.queries[row.run.query_id].key, ledger.agents[row.run.agent].agent.key
        values = run_values(row, *keys)
        if row.run.key == 0:
            key = _insert(connection, runs, values)
            ledger.runs[name] = replace(row, run=replace(row.run, key=key))
        else:
            old.append(values)
    _update(connection, runs, old)


def _insert(connection: Connection, table: sa.Table, values: dict[str, Any]) -> int:
    del values["key"]
    return int(connection.execute(sa.insert(table).values(values).returning(table.c.key)).scalar_one())


def _update(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    for row in rows:
        row["its_key"] = row.pop("key")
    connection.execute(sa.update(table).where(table.c.key == sa.bindparam("its_key")), rows)
