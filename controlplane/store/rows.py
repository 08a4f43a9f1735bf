"""Conversion between database rows and the values of `controlplane.model` and `controlplane.records`.

Called by `controlplane.store.queries` and `controlplane.store.writing.unit_of_work`; runs no statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from controlplane.model import Agent, Run, RunEnd, RunFacts, StatusSample
from controlplane.records import NOTHING, AgentRow, Gap, QueryNaming, QueryRow, ReportedBatches, RunRow
from controlplane.store.tables import agents, queries, runs

T = TypeVar("T")
ToJson = Callable[[Any], Any]
#: Fields without a column: an agent's labels and its outage are part of the column `info`.
AGENT_FIELDS = tuple(f.name for f in fields(Agent) if f.name not in ("labels", "outage", "contact_at"))
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
        stored_event_at=row["last_event_at"],
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


def agent_values(row: AgentRow, before: AgentRow | None = None) -> dict[str, Any]:
    """The columns of `agents` for this row; where `before` is given, those whose values differ from that row's."""
    return _values(row, before, _agent_fields, _AGENT_JSON)


def query_values(row: QueryRow, before: QueryRow | None = None) -> dict[str, Any]:
    """The same for `queries`."""
    return _values(row, before, vars, _QUERY_JSON)


def run_values(row: RunRow, before: RunRow | None = None) -> dict[str, Any]:
    """The same for `runs`, with the ids of query and agent in place of their keys."""
    return _values(row, before, _run_fields, _RUN_JSON)


def _values(
    row: T, before: T | None, fields_of: Callable[[T], dict[str, Any]], json_of: Mapping[str, ToJson]
) -> dict[str, Any]:
    values = dict(fields_of(row))
    if before is not None:
        known = fields_of(before)
        values = {name: v for name, v in values.items() if v is not known[name] and v != known[name]}
    for name in values.keys() & json_of.keys():
        values[name] = json_of[name](values[name])
    return values


def _agent_fields(row: AgentRow) -> dict[str, Any]:
    known = vars(row.agent)
    return {name: known[name] for name in AGENT_FIELDS} | {
        "described_at": row.described_at,
        "end_exception": row.end_exception,
        "pruned_seq": row.pruned_seq,
        "polls": row.polls,
        "info": (row.info, row.agent.labels),
    }


def _run_fields(row: RunRow) -> dict[str, Any]:
    fields = {**vars(row), **vars(row.run)}
    del fields["run"], fields["stored_event_at"]
    return fields


def _or_null(value: Any) -> dict[str, Any] | None:
    return vars(value) if value else None


_AGENT_JSON: dict[str, ToJson] = {"polls": list, "info": lambda info: {**info[0], "labels": dict(info[1])}}
_QUERY_JSON: dict[str, ToJson] = {
    "reported": lambda reported: {**vars(reported), "gaps": [vars(gap) for gap in reported.gaps]}
}
_RUN_JSON: dict[str, ToJson] = {
    "end": lambda end: end.value if end else None,
    "status": _or_null,
    "naming": _or_null,
    "facts": lambda facts: {name: value for name, value in vars(facts).items() if value is not None},
}
