"""The newest driver of each application: when it began, and whether it failed before it started a query.

Owned by `controlplane.events.window`. After a deploy, the driver before has been ended in an orderly way: its queries are
stopped, and only the failure of the next driver shows that they will not come back. The sentence of a query whose driver
is silent states when another driver began.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from controlplane.driver_model import FailedDriver
from controlplane.model import Agent
from controlplane.records import AgentRow
from listeners.protocol import wire


class AppDrivers:
    """The agent that began last, by application. `queries_of`: the queries whose newest run an agent has."""

    def __init__(self, queries_of: Mapping[str, Set[str]]):
        self._queries_of = queries_of
        self._rows: dict[str, dict[str, AgentRow]] = {}  # application -> agent -> its row
        self._newest: dict[str, AgentRow] = {}

    def put(self, row: AgentRow) -> bool:
        """Take over a committed row; whether the application has another newest driver, or its failure has come or gone."""
        app, known = row.agent.app, self._newest.get(row.agent.app)
        rows = self._rows.setdefault(app, {})
        rows[row.agent.agent] = row
        if known is None:
            self._newest[app] = row
            return _failed(row)
        if known.agent.agent != row.agent.agent:
            if _began(known) > _began(row):
                return False
        elif _began(known) > _began(row):  # an earlier event of it has arrived late
            row = max(rows.values(), key=_began)
        self._newest[app] = row
        return (_began(known), _failed(known)) != (_began(row), _failed(row))

    def clear(self) -> None:
        """Forget all drivers."""
        self._rows.clear()
        self._newest.clear()

    def next_began_at(self, agent: Agent) -> float | None:
        """When the newest driver of the application began (Unix seconds); None if it is `agent`."""
        row = self._newest.get(agent.app)
        return None if row is None or row.agent.agent == agent.agent else row.agent.first_seen_at

    def failed_after(self, agent: Agent) -> FailedDriver | None:
        """The newest driver of the application, if it began after `agent` ended, failed and has started no query."""
        row = self._newest.get(agent.app)
        if row is None or not _failed(row) or agent.ended_at is None or row.agent.agent == agent.agent:
            return None
        followed = row.agent.first_seen_at >= agent.ended_at
        started = self._queries_of.get(row.agent.agent)
        return (
            FailedDriver(row.agent.ended_at or 0.0, row.end_exception) if followed and not started else None
        )


def _began(row: AgentRow) -> tuple[float, str]:
    return row.agent.first_seen_at, row.agent.agent


def _failed(row: AgentRow) -> bool:
    return row.agent.ended_at is not None and row.agent.end_reason in wire.FAILED_REASONS
