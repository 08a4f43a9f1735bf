"""Notice which version of an application is healthy, and describe a newer one that crashes again and again.

Called by `controlplane.apps.policy_restarts`; `controlplane.apps.restarts` decides what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from controlplane.apps import versions
from controlplane.apps.model import AppVersion, DriverPhase, DriverStatus, StartedDriver
from controlplane.apps.restarts import CrashLoop, EndedDriver
from controlplane.apps.rollback import RollbackCheck
from controlplane.health.formatting import span
from controlplane.supervision.policies import Policy

#: So many drivers of a version that was never healthy are a crash loop.
CRASHED_DRIVERS = 3


class Evidence(Protocol):
    """What `controlplane.apps.rollback.VersionEvidence` knows of an application."""

    def is_healthy(self, driver: StartedDriver) -> bool: ...

    def changes(self, driver: StartedDriver) -> list[str]: ...

    def check(self, driver: StartedDriver) -> RollbackCheck: ...


class CrashLoops:
    """The versions of applications under policies. `put_healthy` stores when a driver's version was first healthy."""

    def __init__(
        self,
        evidence: Evidence,
        put_healthy: Callable[[StartedDriver, float], None],
        clock: Callable[[], float],
    ):
        self._evidence, self._put_healthy, self._clock = evidence, put_healthy, clock

    def note_health(self, policy: Policy, driver: StartedDriver, status: DriverStatus) -> None:
        """Record that the driver's version is healthy: its queries work after the policy's healthy time."""
        version, now = driver.version_record, self._clock()
        if version is None or version.healthy_at is not None or status.phase is not DriverPhase.RUNNING:
            return
        lasted = now - driver.started_at >= policy.restart.budget.reset_seconds
        if lasted and self._evidence.is_healthy(driver):
            self._put_healthy(driver, now)

    def loop_of(self, ended: EndedDriver, declared: Mapping[str, Any], now: float) -> CrashLoop | None:
        """The crash loop that a driver belongs to; None if there is none, or no version before it was healthy."""
        driver, version = ended.driver, ended.driver.version_record
        if version is None or version.healthy_at is not None or version.earlier is None:
            return None
        since = max(version.since, ended.person_at if ended.policy.acts else 0.0)
        drivers = {driver.launch_id} | {entry.run_id for entry in ended.history if entry.at >= since}
        if len(drivers) < CRASHED_DRIVERS:
            return None
        rolls_back = ended.policy.restart.rollback
        refusal = versions.rollback_refusal(version, declared) if rolls_back else None
        cause = self._cause(version, driver, len(drivers), now)
        return CrashLoop(versions.fingerprint(version.spec), cause, rolls_back, refusal)

    def checked(self, loop: CrashLoop, driver: StartedDriver) -> CrashLoop:
        """The loop with the doctor's verdict on a rollback."""
        check = self._evidence.check(driver)
        return replace(loop, refusal=check.refusal, waiting=check.waiting)

    def _cause(self, version: AppVersion, driver: StartedDriver, drivers: int, now: float) -> str:
        """A sentence that names the version as the probable cause, with what differs."""
        earlier = version.earlier or {}
        differs = [*versions.differences(earlier, version.spec), *self._evidence.changes(driver)]
        age, names = span(now - version.since), f" ({'; '.join(differs)})" if differs else ""
        return (
            f"The probable cause is the new version{names}: {drivers} of its drivers have ended since its first start {age} "
            f"ago, and it was never healthy."
        )
