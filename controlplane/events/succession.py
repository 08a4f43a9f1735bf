"""Which query has replaced another: under its name, or without one in the next driver.

Used by `controlplane.events.window`. A query that runs is never replaced, and the end of a driver stays visible beside
the queries that another driver ran already: only an orderly end, or what began after the end, takes a query's place.
"""

from __future__ import annotations

from controlplane.events.agent_host import last_contact
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Agent, Run, RunEnd
from controlplane.records import QueryRow, RunRow

_ORDERLY = (RunEnd.STOPPED, RunEnd.FINISHED)


def over_at(run: Run, agent: Agent | None, now: float) -> float | None:
    """When a run ended or its driver was last in contact, Unix seconds; None while the run may be active."""
    if run.ended_at is not None or agent is None:
        return run.ended_at
    if agent.ended_at is not None:
        return agent.ended_at
    seen_at = last_contact(agent, now)
    return seen_at if now - seen_at > DEFAULTS.silent_seconds else None


def replaces(
    first_seen_at: float, later: Run | None, its: Agent | None, run: Run | None, over: float | None
) -> bool:
    """Whether a query, first seen then and with the newest run `later` in the driver `its`, has taken the place of the
    `run` of another.

    `over`: that of `run`, see `over_at`. Another start of a query that had run beside it in another driver does not.
    """
    if run is None or run.end in _ORDERLY:
        return True
    if over is None or first_seen_at > over:
        return over is not None
    if later is None or later.started_at <= over:
        return False
    return later.agent == run.agent or (its is not None and its.first_seen_at > over)


class AnonymousQueries:
    """Of each application an anonymous query of the driver that began last: without a name, on a checkpoint that Spark
    made for one run.

    The next driver gives such a query another id, and nothing else identifies it.
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, RunRow]] = {}

    def put(self, query: QueryRow, run: RunRow, agent: Agent | None) -> None:
        """Take over a committed run of a driver."""
        began = agent.first_seen_at if agent is not None else run.run.started_at
        if self.has(query, run) and began >= self._newest.get(query.app, (0.0, run))[0]:
            self._newest[query.app] = began, run

    def has(self, query: QueryRow, run: RunRow) -> bool:
        """Whether a query is anonymous."""
        return query.name is None and run.facts.checkpoint_is_temporary is True

    def successor(self, query: QueryRow, run: RunRow, over: float | None) -> str | None:
        """The newest one, if its driver began after that of `run` was `over`."""
        began, later = self._newest.get(query.app, (0.0, run))
        followed = over is not None and began > over and later.run.agent != run.run.agent
        return later.run.query_id if followed else None

    def clear(self) -> None:
        """Forget all queries."""
        self._newest.clear()
