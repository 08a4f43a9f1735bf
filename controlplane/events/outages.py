"""Whether Spark answers a driver's agent, from the agent's last heartbeat and poll. Pure.

Called by `controlplane.events.window`, so that every view carries it; `controlplane.health.context` decides
whether it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.driver_model import Outage
from controlplane.events import progress
from controlplane.records import AgentRow
from listeners.protocol import wire

MAX_DETAIL_CHARS = 300


def with_outage(row: AgentRow) -> AgentRow:
    """The row with the outage of its last heartbeat; without one if Spark has answered a later poll."""
    heartbeat = row.info.get("heartbeat") or {}
    outage = _reported(heartbeat)
    if outage is not None and row.polls and row.polls[-1] > float(heartbeat["at"]):
        outage = None
    return row if outage == row.agent.outage else replace(row, agent=replace(row.agent, outage=outage))


def _reported(heartbeat: Mapping[str, Any]) -> Outage | None:
    """The heartbeat's field `unreachable`. Its duration, unlike a time, needs no common clock."""
    found = progress.mapping(heartbeat.get("unreachable"))
    seconds, cause = found.get("seconds"), found.get("cause")
    if cause not in wire.OUTAGE_CAUSES or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    seen_at, detail = float(heartbeat["at"]), progress.text(found.get("detail"), MAX_DETAIL_CHARS)
    if not 0 <= seconds <= seen_at:  # also false for NaN; compares integers too large for a float
        return None
    return Outage(str(cause), seen_at - seconds, detail, seen_at)
