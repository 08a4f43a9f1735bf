"""Drivers that write to a query's checkpoint beside its own. Pure.

A driver that was replaced may be silent, not gone, so its open run alone proves nothing. One that was seen after the
other had begun lived at the same time.
"""

from __future__ import annotations

from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryView
from controlplane.supervision_model import CheckpointWriter

#: A driver that ends while the next one begins, and times by two clocks, are no overlap.
OVERLAP_SECONDS = 10.0


def going_on(view: QueryView, now: float) -> list[CheckpointWriter]:
    """Runs of other drivers on the checkpoint that go on after the newest run has ended.

    Spark ends one of two queries on a checkpoint within about a second, as often the newer one as the older one.
    """
    ended_at = view.run.ended_at if view.run is not None else None
    if ended_at is None:
        return []
    living = (rival for rival in view.beside if rival.was_seen(now, DEFAULTS.unresponsive_seconds))
    return [rival for rival in living if rival.last_contact_at >= ended_at]


def names_going_on(view: QueryView, now: float) -> str:
    """The drivers of `going_on` as `app/agent, …`; empty without one."""
    return ", ".join(f"{run.app}/{run.agent[:8]}" for run in going_on(view, now))


def overlapping(view: QueryView) -> list[CheckpointWriter]:
    """Runs of other drivers that have written to the checkpoint at the same time as the newest, one for each driver."""
    run, agent = view.run, view.agent
    if run is None or run.ended_at is not None or agent is None or agent.ended_at is not None:
        return []
    found = {}
    for rival in view.writers[1:]:
        both_since = max(run.started_at, rival.started_at) + OVERLAP_SECONDS
        seen = min(agent.last_contact_at, rival.last_contact_at)
        if rival.agent_ended_at is None and seen >= both_since:
            found[rival.agent] = rival
    return list(found.values())
