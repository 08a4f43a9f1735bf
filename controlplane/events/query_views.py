"""The view of a query from its rows. Pure; called by `controlplane.events.window`."""

from __future__ import annotations

from typing import Any

from controlplane.events.agent_host import AgentHost
from controlplane.events.run_resolution import outlives_agent
from controlplane.model import QueryView, ShapeChange
from controlplane.records import AgentRow, QueryRow, RunRow


def query_view(
    query: QueryRow,
    row: RunRow | None,
    agent: AgentRow | None,
    host: AgentHost,
    change: ShapeChange | None = None,
    **known: Any,
) -> QueryView:
    """The view of a query with its newest run and that run's agent. `known`: further fields of the view."""
    return QueryView(
        query_id=query.query_id,
        app=query.app,
        name=query.name,
        labels=query.labels,
        first_seen_at=query.first_seen_at,
        agent=agent.agent if agent is not None else None,
        run=row.run if row is not None else None,
        start_failed_at=query.start_failed_at,
        start_failure=query.start_failure,
        retired_at=query.retired_at,
        **(_of_run(row, agent, host, change) if row is not None else {}),
        **known,
    )


def _of_run(
    row: RunRow, agent: AgentRow | None, host: AgentHost, change: ShapeChange | None
) -> dict[str, Any]:
    return {
        "ended_by": row.ended_by,
        "facts": row.facts,
        "idle_at": row.idle_at,
        "status": row.status,
        "last_event_at": row.last_event_at,
        "polls": agent.polls if agent is not None else (),
        "change": change if change and change.run_id == row.run.run_id else None,
        "host": host.load,
        "executors": host.executors,
        "overload": host.overload,
        "outlives_agent": agent is not None and outlives_agent(agent, row.run.run_id),
    }
