"""Tests of crash loops and rollbacks, and a simulation of deploys, crashes and people at random."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from controlplane.apps import versions
from controlplane.apps.crash_loops import CrashLoops
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DriverPhase,
    DriverStatus,
    NewAppAction,
    StartedDriver,
    VersionSource,
)
from controlplane.apps.policy_restarts import PolicyRestarts
from controlplane.apps.rollback import RollbackCheck
from controlplane.errors import Conflict
from controlplane.supervision.policies import (
    Policy,
    PolicyMode,
    PolicySet,
    RestartBudget,
    RestartRule,
    RetryDelay,
)
from controlplane.supervision_model import DecisionKind, LedgerEntry

RULE = RestartRule(
    delay=RetryDelay(5.0, 1.0, 5.0, 0.0), budget=RestartBudget(6, 3600.0, 600.0), rollback=True
)
ACT = Policy("payments", mode=PolicyMode.ACT, restart=RULE)
TICK_SECONDS = 5.0


def spec(version: str) -> AppSpec:
    return AppSpec("billing", "process", {"command": [version]}, version)


@dataclass
class SimulatedApp:
    """An application under the real policy code; drivers of a version in `bad` end after 20 s."""

    policy: Policy = ACT
    bad: set[str] = field(default_factory=set)
    check_result: RollbackCheck = field(default_factory=RollbackCheck)
    now: float = 0.0
    declared: AppSpec = field(default_factory=lambda: spec("1"))
    desired: bool = True
    person_at: float = 0.0
    driver: StartedDriver | None = None
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    by_policy: list[tuple[VersionSource, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.policies = PolicySet((self.policy,))
        loops = CrashLoops(self, self._put_healthy, lambda: self.now)
        self._restarts = PolicyRestarts(self, self.request, lambda *_: None, lambda: self.now, loops)

    # -- what the policy uses --------------------------------------------------------------------

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]:
        return list(self.entries.values())

    def add(self, entry: LedgerEntry) -> None:
        self.entries[entry.id] = entry

    change = add

    def is_healthy(self, driver: StartedDriver) -> bool:
        return True

    def changes(self, driver: StartedDriver) -> list[str]:
        return ["Spark 4.2.0 → 4.3.0"]

    def check(self, driver: StartedDriver) -> RollbackCheck:
        return self.check_result

    def request(self, app: str, wanted: NewAppAction) -> tuple[AppAction, bool]:
        if wanted.by_policy and not self.desired:
            raise Conflict("a person has stopped it")
        source = versions.source_of(wanted, self.declared.to_json(), self.driver)
        started = versions.spec_to_start(self.declared, source, self.driver)
        if wanted.by_policy:
            assert self.policy.acts
            assert source is not VersionSource.EARLIER or self.check_result == RollbackCheck()
            self.by_policy.append((source, started.version))
        self._start(started, source)
        return AppAction("a", app, "start", "x", "x", self.now, state=AppActionState.SUCCEEDED), True

    def _put_healthy(self, driver: StartedDriver, at: float) -> None:
        assert self.driver is not None and driver.version_record is not None
        record = replace(driver.version_record, healthy_at=at)
        self.driver = replace(self.driver, version_record=record)

    # -- what happens ----------------------------------------------------------------------------

    def _start(self, started: AppSpec, source: VersionSource) -> None:
        before = self.driver.version_record if self.driver else None
        record = versions.version_of(before, started, source, self.now)
        launch = f"l{len(self.entries)}-{self.now}-{started.version}"
        made = StartedDriver("billing", launch, "process", {}, started.version, self.now, "x", {})
        self.driver = replace(made, version_record=record)

    def person_starts(self) -> None:
        self.desired, self.person_at = True, self.now
        self.request("billing", NewAppAction("restart", "ada", "t"))

    def person_stops(self) -> None:
        self.desired = False
        if self.driver and self.driver.ended_at is None:
            self.driver = replace(self.driver, ended_at=self.now, end_reason="Stopped by ada.")

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += TICK_SECONDS
            driver = self.driver
            if driver is None:
                continue
            if driver.version in self.bad and driver.ended_at is None and self.now >= driver.started_at + 20:
                driver = self.driver = replace(driver, ended_at=self.now, end_reason="Exit code 1.")
            phase = DriverPhase.RUNNING if driver.ended_at is None else DriverPhase.ENDED
            self._restarts.consider(
                self.policy,
                driver,
                DriverStatus(phase),
                self.desired,
                self.person_at,
                self.declared.to_json(),
            )

    def deploy(self, version: str) -> None:
        self.declared = spec(version)
        self.person_starts()

    @property
    def restarts(self) -> list[LedgerEntry]:
        return [e for e in self.entries.values() if e.decision is DecisionKind.RESTART]


def deployed(**options: object) -> SimulatedApp:
    """Version 1 was healthy, version 2 crashes."""
    app = SimulatedApp(bad={"2"}, **options)  # type: ignore[arg-type]
    app.deploy("1")
    app.run(900)
    app.deploy("2")
    app.run(900)
    return app


def test_a_new_version_that_crashes_is_rolled_back_once() -> None:
    app = deployed()
    assert app.by_policy == [
        (VersionSource.DECLARED, "2"),
        (VersionSource.DECLARED, "2"),
        (VersionSource.EARLIER, "1"),
    ]
    last = app.restarts[-1]
    assert (last.code, last.acted) == ("rollback", True)
    assert "version 1 → 2; launcher: command; Spark 4.2.0 → 4.3.0): 3 of its drivers have ended" in last.why
    app.person_starts()  # a person insists on what is declared
    app.run(900)
    assert {version for _, version in app.by_policy[3:]} == {"2"}
    assert "rolled back once" in app.restarts[-1].why
    last = list(app.entries.values())[-1]
    assert (last.decision, "The probable cause is the new version" in last.why) == (DecisionKind.PAGE, True)


def test_the_earlier_version_stays_until_another_one_is_declared() -> None:
    app = deployed()
    app.bad.add("1")
    app.run(100)
    assert app.by_policy[-1] == (VersionSource.RUNNING, "1")
    app.deploy("3")
    app.run(900)
    assert app.driver is not None and (app.driver.version, app.driver.ended_at) == ("3", None)


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        ({"check_result": RollbackCheck("its checkpoint is broken")}, "due", "It is not rolled back: its"),
        (
            {"policy": replace(ACT, restart=replace(RULE, rollback=False))},
            "due",
            "The probable cause is the new version",
        ),
    ],
)
def test_what_the_doctor_or_the_policy_does_not_allow_is_not_rolled_back(
    options: dict[str, object], code: str, part: str
) -> None:
    app = deployed(**options)
    assert {source for source, _ in app.by_policy} == {VersionSource.DECLARED}
    assert (app.restarts[-1].code, part in app.restarts[-1].why) == (code, True)


def test_a_rollback_waits_for_the_doctor() -> None:
    app = deployed(check_result=RollbackCheck(waiting=True))
    last = list(app.entries.values())[-1]
    assert (last.decision, last.code) == (DecisionKind.HOLD, "checkpoint_unknown")
    app.check_result = RollbackCheck()
    app.run(60)
    assert app.by_policy[-1] == (VersionSource.EARLIER, "1")


def test_at_random_a_person_wins_and_a_version_is_rolled_back_at_most_once() -> None:
    assert sum(map(rollbacks_at_random, range(8))) > 0


def rollbacks_at_random(seed: int) -> int:
    """Deploys, crashes, starts and stops at random; the number of rollbacks."""
    draw = random.Random(seed)
    mode = PolicyMode.OBSERVE if seed == 0 else PolicyMode.ACT
    app = SimulatedApp(replace(ACT, mode=mode), bad={"2", "4"})
    app.deploy("1")
    for _ in range(20):
        app.run(draw.choice([60.0, 700.0]))
        before = len(app.by_policy)
        match draw.randrange(6):
            case 0:
                app.person_stops()
                app.run(60.0)
                assert len(app.by_policy) == before, "a policy has undone a person's stop"
            case 1:
                app.person_starts()
                assert app.driver is not None and app.driver.version == app.declared.version
            case 2 | 3:
                app.deploy(draw.choice("1234"))
                assert app.driver is not None and app.driver.version == app.declared.version
            case 4:
                app.declared = spec(draw.choice("1234"))  # applied, not started
            case _:
                app.check_result = RollbackCheck(draw.choice([None, None, "broken"]))
    rolled_back = [e.inputs["version"] for e in app.restarts if e.code == "rollback" and e.acted]
    assert len(rolled_back) == len(set(rolled_back)) and set(rolled_back) <= app.bad
    assert app.policy.acts or not app.by_policy
    return len(rolled_back)
