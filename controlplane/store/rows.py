"""Conversion between database rows and the values of `controlplane.model` and `controlplane.records`.

Called by `controlplane.store.queries` and `controlplane.store.unit_of_work`; runs no statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from controlplane.model import Agent, Run, RunEnd, RunFacts, StatusSample
from controlplane.records import NOTHING, AgentRow, Gap, QueryNaming, QueryRow, ReportedBatches, RunRow
from controlplane.store.tables import agents, queries, runs

#: Fields without a column: an agent's labels and its outage are part of the column `info`.
AGENT_FIELDS = tuple(f.name for f in fields(Agent) if f.name not in ("labels", "outage"))
QUERY_FIELDS = tuple(f.name for f in fields(QueryRow))
RUN_COLUMNS = tuple(column for column in runs.c if column.name not in ("query_key", "agent_key"))


def select_runs() -> sa.Select[Any]:
    """SELECT of runs with the ids of their query and agent, for `run_row`."""
    return (
        sa.select(*RUN_COLUMNS, queries.c.query_id, agents.c.agent)
        .join(queries, runs.c.query_key == queries.c.key)
        .join(agents, runs.c.agent_key == agents.c.key)
    )


def key_of(query_id: str) -> sa.ScalarSelect[Any]:
    """A subquery for the key of a query."""
    return sa.select(queries.c.key).where(queries.c.query_id == query_id).scalar_subquery()


def agent_row(row: RowMapping) -> AgentRow:
    """A row of `agents` as an AgentRow."""
    info = dict(row["info"])
    labels = info.pop("labels", {})
    return AgentRow(
        agent=Agent(**{name: row[name] for name in AGENT_FIELDS}, labels=labels),
        described_at=row["described_at"],
        polls=tuple(row["polls"] or ()),
        end_exception=row["end_exception"],
        pruned_seq=row["pruned_seq"],
        info=info,
    )


def query_row(row: RowMapping) -> QueryRow:
    """A row of `queries` as a QueryRow."""
    values = {name: row[name] for name in QUERY_FIELDS}
    return QueryRow(**values | {"reported": reported_batches(row["reported"])})


def reported_batches(stored: Mapping[str, Any] | None) -> ReportedBatches:
    """The value of the column `queries.reported`; `NOTHING` where it is empty."""
    if not stored:
        return NOTHING
    gaps = tuple(Gap(**gap) for gap in stored["gaps"])
    return ReportedBatches(stored["high"], gaps, stored.get("dropped_uncounted", 0))


def run_row(row: RowMapping) -> RunRow:
    """A row of `select_runs` as a RunRow."""
    return RunRow(
        run=run_of(row),
        last_event_at=row["last_event_at"],
        first_seq=row["first_seq"],
        ended_by=row["ended_by"],
        facts=RunFacts(**row["facts"]),
        idle_at=row["idle_at"],
        status=StatusSample(**row["status"]) if row["status"] else None,
        naming=QueryNaming(**row["naming"]) if row["naming"] else None,
    )


def run_of(row: RowMapping) -> Run:
    """A row of `select_runs` as a Run."""
    return Run(
        key=row["key"],
        run_id=row["run_id"],
        query_id=row["query_id"],
        agent=row["agent"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        end=RunEnd(row["end"]) if row["end"] else None,
        first_batch_id=row["first_batch_id"],
        last_batch_id=row["last_batch_id"],
        batches=row["batches"],
        failure_text=row["failure_text"],
        error_class=row["error_class"],
    )


def agent_values(row: AgentRow) -> dict[str, Any]:
    """The columns of `agents` for this row."""
    values = {name: getattr(row.agent, name) for name in AGENT_FIELDS}
    extra = ("described_at", "end_exception", "pruned_seq")
    info = {**row.info, "labels": dict(row.agent.labels)}
    return values | {name: getattr(row, name) for name in extra} | {"polls": list(row.polls), "info": info}


def query_values(row: QueryRow) -> dict[str, Any]:
    """The columns of `queries` for this row."""
    values = {name: getattr(row, name) for name in QUERY_FIELDS}
    return values | {"reported": asdict(row.reported)}


def run_values(row: RunRow, query_key: int, agent_key: int) -> dict[str, Any]:
    """The columns of `runs` for this row."""
    run = row.run
    return {
        "key": run.key,
        "run_id": run.run_id,
        "query_key": query_key,
        "agent_key": agent_key,
        "started_at": run.started_at,
        "first_seq": row.first_seq,
        "last_event_at": row.last_event_at,
        "ended_at": run.ended_at,
        "ended_by": row.ended_by,
        "end": run.end.value if run.end else None,
        "first_batch_id": run.first_batch_id,
        "last_batch_id": run.last_batch_id,
        "batches": run.batches,
        "failure_text": run.failure_text,
        "error_class": run.error_class,
        "idle_at": row.idle_at,
        "status": asdict(row.status) if row.status else None,
        "naming": asdict(row.naming) if row.naming else None,
        "facts": {name: value for name, value in asdict(row.facts).items() if value is not None},
    }
