"""Tests of the guard of a start: unreachable is not dead."""

from __future__ import annotations

import pytest

from controlplane.apps.guard import SILENT_SECONDS, start_refusal
from controlplane.apps.model import DriverPhase, DriverStatus, StartedDriver
from controlplane.model import Agent

NOW = 1_000_000.0
ENDED = StartedDriver("billing", "l1", "process", {}, "1", NOW - 100, "ada", {}, NOW - 50, "It ended.")
OVER = DriverStatus(DriverPhase.ENDED, "It ended.", NOW - 50)


def agent(seen: float, app: str = "billing", ended_at: float | None = None) -> Agent:
    return Agent(1, "a1", app, last_seen_at=seen - 5, contact_at=seen, ended_at=ended_at)


@pytest.mark.parametrize("phase", [DriverPhase.UNKNOWN, DriverPhase.RUNNING, DriverPhase.STARTING])
def test_a_driver_that_may_live_is_not_doubled(phase: DriverPhase) -> None:
    refusal = start_refusal("billing", ENDED, DriverStatus(phase, "No master answers."), [], NOW)
    assert refusal is not None
    assert "No master answers." in refusal
    assert "--force" in refusal


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (agent(NOW - 1), True),  # reports now, though the launcher's driver has ended: another one
        (agent(NOW - 45), True),  # silent since after that end: it may be cut off
        (agent(NOW - 60), False),  # last seen before the end: the driver that has ended
        (agent(NOW - 49), False),  # the same, by clocks that differ a little
        (agent(NOW - 1, app="other"), False),
        (agent(NOW - 1, ended_at=NOW - 1), False),
    ],
)
def test_an_agent_counts_after_the_end_that_the_launcher_saw(found: Agent, refused: bool) -> None:
    refusal = start_refusal("billing", ENDED, OVER, [found], NOW)
    assert (refusal is not None) == refused
    if refusal is not None:
        assert "Another driver of billing may still run" in refusal


@pytest.mark.parametrize(
    ("silence", "refused"), [(1.0, True), (SILENT_SECONDS - 1, True), (SILENT_SECONDS + 1, False)]
)
def test_a_driver_of_another_origin_counts_for_a_day(silence: float, refused: bool) -> None:
    none = DriverStatus(DriverPhase.NONE)
    assert (start_refusal("billing", None, none, [agent(NOW - silence)], NOW) is not None) == refused
