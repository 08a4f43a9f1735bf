"""Tests of the steps of actions: what is stored before a launcher acts, and what each outcome leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controlplane.apps.launchers.seam import Launch
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DriverPhase,
    DriverStatus,
    LauncherError,
    StartedDriver,
)
from controlplane.apps.steps import ActionSteps
from controlplane.model import Agent

SPEC = AppSpec("billing", "fake", {}, version="2", drain_seconds=5.0)
RUNNING = DriverStatus(DriverPhase.RUNNING, "Process 7 runs.")
UNKNOWN = DriverStatus(DriverPhase.UNKNOWN, "No master answers.")
ENDED = DriverStatus(DriverPhase.ENDED, "It ended.", 900.0)
OLD = StartedDriver("billing", "old", "fake", {}, "1", 100.0, "ada", {"pid": 1})


@dataclass
class Fakes:
    """A launcher, a store and the queries, which write what happens into `log`."""

    status: DriverStatus = ENDED
    start_error: LauncherError | None = None
    after_stop: DriverStatus = ENDED
    undrained: list[str] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    driver: StartedDriver | None = None

    def start(self, launch: Launch) -> Mapping[str, Any]:
        self.log.append("start")
        if self.start_error is not None:
            raise self.start_error
        self.status = RUNNING
        return {"pid": 7}

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        self.log.append(f"stop {driver.launch_id}")
        self.status = self.after_stop

    def state(self, driver: StartedDriver) -> DriverStatus:
        return self.status

    def logs(self, driver: StartedDriver, lines: int) -> str:
        return ""

    def is_superseded(self, action: AppAction) -> bool:
        return False

    def put_driver(self, app: str, driver: StartedDriver) -> None:
        self.driver = driver
        handle = "with handle" if driver.handle else "without handle"
        self.log.append(f"store {driver.launch_id} {handle if driver.ended_at is None else 'ended'}")

    def drain(self, app: str, actor: str, via: str, seconds: float) -> list[str]:
        self.log.append("drain")
        return self.undrained

    def run(self, action: str, driver: StartedDriver | None, **options: Any) -> AppAction:
        steps = ActionSteps(
            self,
            lambda _: self,
            lambda spec, action, before: replace(OLD, launch_id="new", version=spec.version, handle=None),
            lambda _: {},
            lambda: self.agents,
            self,
            lambda: 1000.0,
        )
        return steps.run(SPEC, AppAction("1", "billing", action, "ada", "t", 1000.0, **options), driver)


def test_a_start_is_stored_before_and_after_the_launcher_acts() -> None:
    fakes = Fakes()
    outcome = fakes.run("start", None)
    assert (outcome.state, outcome.reason) == (AppActionState.SUCCEEDED, "Started: Process 7 runs.")
    assert fakes.log == ["store new without handle", "start", "store new with handle"]


@pytest.mark.parametrize("force", [False, True])
def test_a_running_driver_is_not_started_again_even_by_force(force: bool) -> None:
    fakes = Fakes(RUNNING)
    outcome = fakes.run("start", OLD, force=force)
    assert (outcome.state, outcome.reason) == (AppActionState.SUCCEEDED, "Nothing to do: Process 7 runs.")
    assert fakes.log == []


def test_an_unknown_driver_needs_force() -> None:
    fakes = Fakes(UNKNOWN)
    outcome = fakes.run("start", OLD)
    assert outcome.state is AppActionState.REFUSED
    assert "may still run: No master answers." in outcome.reason
    assert fakes.log == []
    forced = fakes.run("start", OLD, force=True)
    assert forced.state is AppActionState.SUCCEEDED
    assert "Forced although: The driver of billing may still run" in forced.reason


def test_an_agent_that_reports_holds_a_start_back() -> None:
    fakes = Fakes(agents=[Agent(1, "a", "billing", contact_at=999.0)])
    assert fakes.run("start", OLD).state is AppActionState.REFUSED
    assert fakes.log == ["store old ended"]


@pytest.mark.parametrize("may_live", [False, True])
def test_a_failed_start_leaves_a_driver_only_where_it_may_live(may_live: bool) -> None:
    fakes = Fakes(start_error=LauncherError("no answer", may_live=may_live))
    outcome = fakes.run("start", None)
    assert (outcome.state, outcome.reason) == (AppActionState.FAILED, "No answer.")
    assert fakes.driver is not None
    assert (fakes.driver.ended_at is None) == may_live


def test_a_stop_drains_first_where_that_is_wanted() -> None:
    fakes = Fakes(RUNNING, undrained=["orders"])
    outcome = fakes.run("stop", OLD, drain=True)
    assert outcome.reason == "Stopped. It ended. Not drained within 5 s: orders."
    assert fakes.log == ["drain", "stop old", "store old ended"]
    assert fakes.driver is not None
    assert (fakes.driver.ended_at, fakes.driver.end_reason) == (900.0, "Stopped by ada. It ended.")


def test_a_restart_starts_nothing_while_the_old_driver_may_live() -> None:
    fakes = Fakes(RUNNING, after_stop=UNKNOWN)
    outcome = fakes.run("restart", OLD)
    assert (outcome.state, outcome.reason) == (
        AppActionState.FAILED,
        "The driver may still run: No master answers.",
    )
    assert "start" not in fakes.log


def test_a_restart_stops_then_starts() -> None:
    fakes = Fakes(RUNNING)
    outcome = fakes.run("restart", OLD)
    assert outcome.reason == "Stopped. It ended. Started: Process 7 runs."
    assert fakes.log == [
        "stop old",
        "store old ended",
        "store new without handle",
        "start",
        "store new with handle",
    ]


def test_secrets_do_not_reach_the_reason() -> None:
    fakes = Fakes(start_error=LauncherError("cannot log in with password=hunter2"))
    assert "hunter2" not in fakes.run("start", None).reason


def test_stopping_nothing_succeeds() -> None:
    assert Fakes().run("stop", None).state is AppActionState.SUCCEEDED
