"""What an agent's heartbeats state about its host, its requests, and which changes concern its queries. Pure.

Used by `controlplane.events.window`: a heartbeat arrives every ten seconds and mostly shows only that the driver lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.driver_model import HostLoad
from controlplane.events.progress import whole
from controlplane.health.context import MAX_AHEAD_SECONDS
from controlplane.health.host import host_load, overload
from controlplane.model import Agent
from controlplane.records import AgentRow, changed


@dataclass(frozen=True)
class AgentHost:
    """The last load and number of executors, and the last load that was an overload; None where unknown."""

    load: HostLoad | None = None
    executors: int | None = None
    overload: HostLoad | None = None

    @property
    def news(self) -> tuple[object, ...]:
        """What verdicts and rows of queries state about it: the load only while it is an overload."""
        return self.executors, self.overload, self.load if overload(self.load) is not None else None


NO_HOST = AgentHost()
#: A contact is noted only so long after the last one.
MIN_CONTACT_SECONDS = 15.0


def agent_host(info: Mapping[str, Any]) -> AgentHost:
    """The host of an agent with this `AgentRow.info`."""
    heartbeat = info.get("heartbeat") or {}
    return AgentHost(host_load(heartbeat), whole(heartbeat.get("executors")), host_load(info.get("overload")))


def is_news(before: AgentRow, row: AgentRow, host: AgentHost, new_host: AgentHost) -> bool:
    """Whether the change of an agent concerns the verdicts or rows of its queries, apart from its silence."""
    known = changed(
        before.agent,
        last_seen_at=row.agent.last_seen_at,
        high_seq=row.agent.high_seq,
        clock_offset=row.agent.clock_offset,
    )
    return known != row.agent or host.news != new_host.news


def contacted(row: AgentRow | None, at: float) -> tuple[AgentRow, bool] | None:
    """The row of an agent whose own process sends a request at `at`, and whether that is news of its queries.

    None if a contact was noted shortly before.

    The time of its last event does not make it superfluous: a later correction of the agent's clock may set it back.
    """
    if row is None or -MAX_AHEAD_SECONDS <= at - row.agent.contact_at <= MIN_CONTACT_SECONDS:
        return None
    news = at - row.agent.last_contact_at > MIN_CONTACT_SECONDS
    return changed(row, agent=changed(row.agent, contact_at=at)), news


def last_contact(agent: Agent, now: float) -> float:
    """When an agent was last in contact, Unix seconds. A time ahead of `now` was noted before the server's clock was set."""
    limit = now + MAX_AHEAD_SECONDS
    return max((at for at in (agent.last_seen_at, agent.contact_at) if at <= limit), default=0.0)


def with_contact(row: AgentRow, before: AgentRow | None) -> AgentRow:
    """A row from the store with the last contact, which is not stored."""
    if before is None or not before.agent.contact_at:
        return row
    return changed(row, agent=changed(row.agent, contact_at=before.agent.contact_at))
