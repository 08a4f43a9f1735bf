"""Decide whether a driver may be started: never a second one while the first may live. Pure.

An agent that is silent may be cut off, not dead. It no longer counts where the launcher has seen the end of its driver
afterwards, or after a day of silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.apps.model import DriverPhase, DriverStatus, StartedDriver
from controlplane.health.formatting import clock, span
from controlplane.model import Agent
from controlplane.supervision_model import CheckpointLease

HeldCheckpoints = Callable[[str], Iterable[tuple[CheckpointLease, Agent]]]
SILENT_SECONDS = 24 * 3600.0
#: The times of an agent's events and of its driver's end come from two clocks, or two processes.
TOLERANCE_SECONDS = 2.0
FORCE = "An admin can start it anyway with --force."


def start_refusal(
    app: str,
    driver: StartedDriver | None,
    status: DriverStatus,
    agents: Iterable[Agent],
    now: float,
    held: Iterable[tuple[CheckpointLease, Agent]] = (),
) -> str | None:
    """Why no driver may be started now; None if one may be. `status`: of the driver, asked for just now.

    `held`: checkpoints of the application that drivers of other applications have taken over, with their agents.
    """
    if status.may_live:
        doubt = "may still run" if status.phase is DriverPhase.UNKNOWN else "still runs"
        return f"The driver of {app} {doubt}: {status.reason} {FORCE}"
    other = next((agent for agent in agents if _may_live(agent, app, driver, now)), None)
    if other is not None:
        return (
            f"Another driver of {app} may still run: its agent was last seen {_age(other, now)} ago and has not "
            f"reported its end. Stop it first. {FORCE}"
        )
    for lease, agent in held:
        if agent.ended_at is None and now - agent.last_contact_at <= SILENT_SECONDS:
            return (
                f"The driver {lease.app}/{lease.agent[:8]} has held the checkpoint {lease.checkpoint} of {app} since "
                f"{clock(lease.taken_at, now)} (lease {lease.number}); it was last seen {_age(agent, now)} ago. Stop it "
                f"first. {FORCE}"
            )
    return None


def _age(agent: Agent, now: float) -> str:
    return span(max(0.0, now - agent.last_contact_at))


def _may_live(agent: Agent, app: str, driver: StartedDriver | None, now: float) -> bool:
    if agent.app != app or agent.ended_at is not None or now - agent.last_contact_at > SILENT_SECONDS:
        return False
    # What was last seen before the end of the launcher's own driver was that driver, or counted at its start.
    seen_until = 0.0 if driver is None or driver.ended_at is None else driver.ended_at + TOLERANCE_SECONDS
    return agent.last_contact_at > seen_until
