"""Carry out one action on an application: the order of its steps, each stored before and after the launcher acts.

A start is stored before the launcher is called: if the server ends in between, the next one finds a driver whose fate is
unknown, and starts no second one. Called by `controlplane.apps.service` in a thread of the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from controlplane.apps import guard
from controlplane.apps.guard import HeldCheckpoints
from controlplane.apps.launchers.seam import Launch, Launcher
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DriverPhase,
    DriverStatus,
    LauncherError,
    StartedDriver,
)
from controlplane.model import Agent
from listeners.protocol import redaction

NO_DRIVER = DriverStatus(DriverPhase.NONE, "It was never started from here.")


class StepStore(Protocol):
    """Stores the driver of an application before the next step. `is_superseded`: a later action was requested."""

    def is_superseded(self, action: AppAction) -> bool: ...

    def put_driver(self, app: str, driver: StartedDriver) -> None: ...


class Drain(Protocol):
    """Stops the queries of an app after their running batch; returns the names of those that still run."""

    def drain(self, app: str, actor: str, via: str, seconds: float) -> list[str]: ...


@dataclass(frozen=True)
class ActionSteps:
    """The services that the steps use."""

    store: StepStore
    launcher_of: Callable[[StartedDriver], Launcher]
    new_driver: Callable[[AppSpec, AppAction, StartedDriver | None], StartedDriver]
    environment: Callable[[AppSpec], dict[str, str]]
    agents: Callable[[], Iterable[Agent]]
    queries: Drain
    clock: Callable[[], float]
    held: HeldCheckpoints = lambda app: ()

    def run(self, spec: AppSpec, action: AppAction, driver: StartedDriver | None) -> AppAction:
        """The action with its outcome. Errors of launchers become its reason. `spec`: what a start takes."""
        try:
            if action.action == "start":
                return self._start(spec, action, driver)
            stopped, driver = self._stop(spec, action, driver)
            if action.action == "stop" or stopped.state is not AppActionState.SUCCEEDED:
                return stopped
            started = self._start(spec, action, driver)
            return replace(started, reason=f"{stopped.reason} {started.reason}")
        except LauncherError as error:
            return _finished(action, AppActionState.FAILED, _sentence(str(error)))

    def status(self, driver: StartedDriver | None) -> DriverStatus:
        """The state of a driver, asked for now unless its end is known."""
        if driver is None:
            return NO_DRIVER
        if driver.ended_at is not None:
            return DriverStatus(DriverPhase.ENDED, driver.end_reason, driver.ended_at)
        return self.launcher_of(driver).state(driver)

    def _start(self, spec: AppSpec, action: AppAction, driver: StartedDriver | None) -> AppAction:
        status = self.status(driver)
        if status.phase in (DriverPhase.RUNNING, DriverPhase.STARTING):  # no doubt to force
            return _finished(action, AppActionState.SUCCEEDED, f"Nothing to do: {status.reason}")
        known = self._with_end(driver, status)
        refusal = guard.start_refusal(
            spec.name, known, status, self.agents(), self.clock(), self.held(spec.name)
        )
        if refusal is not None and not action.force:
            return _finished(action, AppActionState.REFUSED, refusal)
        forced = f" Forced although: {refusal}" if refusal else ""
        if self.store.is_superseded(action):
            return _finished(action, AppActionState.REFUSED, "Not started: a stop was requested meanwhile.")
        environment = self.environment(spec)  # before anything is stored: a file may be missing
        return self._launch(self.new_driver(spec, action, driver), action, environment, forced)

    def _launch(
        self, new: StartedDriver, action: AppAction, environment: dict[str, str], forced: str
    ) -> AppAction:
        self.store.put_driver(new.app, new)
        launcher = self.launcher_of(new)
        try:
            new = replace(new, handle=launcher.start(Launch(new, environment)))
        except LauncherError as error:
            if not error.may_live:
                self._ended(new, _sentence(str(error)))
            raise
        self.store.put_driver(new.app, new)
        return _finished(action, AppActionState.SUCCEEDED, f"Started: {launcher.state(new).reason}{forced}")

    def _stop(
        self, spec: AppSpec, action: AppAction, driver: StartedDriver | None
    ) -> tuple[AppAction, StartedDriver | None]:
        """The outcome, and the driver as it is stored after it."""
        status = self.status(driver)
        if driver is None or not status.may_live:
            reason = f"Nothing to stop: {status.reason}"
            return _finished(action, AppActionState.SUCCEEDED, reason), self._with_end(driver, status)
        left: list[str] = []
        if action.drain and status.phase is DriverPhase.RUNNING:
            left = self.queries.drain(spec.name, action.actor, action.via, spec.drain_seconds)
        self.launcher_of(driver).stop(driver, spec.grace_seconds)
        status = self.launcher_of(driver).state(driver)
        if status.may_live:
            reason = f"The driver may still run: {status.reason}"
            return _finished(action, AppActionState.FAILED, reason), driver
        note = f" Not drained within {spec.drain_seconds:g} s: {', '.join(left)}." if left else ""
        done = _finished(action, AppActionState.SUCCEEDED, f"Stopped. {status.reason}{note}")
        return done, self._ended(driver, f"Stopped by {action.actor}. {status.reason}", status.at)

    def _with_end(self, driver: StartedDriver | None, status: DriverStatus) -> StartedDriver | None:
        """The driver with its end stored, if it has just been seen."""
        if driver is None or driver.ended_at is not None or status.phase is not DriverPhase.ENDED:
            return driver
        return self._ended(driver, status.reason, status.at)

    def _ended(self, driver: StartedDriver, reason: str, at: float | None = None) -> StartedDriver:
        if driver.ended_at is not None:
            return driver
        ended = replace(
            driver, ended_at=self.clock() if at is None else at, end_reason=redaction.mask(reason)
        )
        self.store.put_driver(driver.app, ended)
        return ended


def _finished(action: AppAction, state: AppActionState, reason: str) -> AppAction:
    return replace(action, state=state, reason=redaction.mask(reason))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
