"""Tests of the service: one action at a time, observed ends, restarts of the server, and what the audit holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps import service as module
from controlplane.apps.launchers.seam import Launch
from controlplane.apps.model import (
    AppActionState,
    AppSpec,
    DriverPhase,
    DriverStatus,
    NewAppAction,
    StartedDriver,
)
from controlplane.apps.rollback import RollbackCheck
from controlplane.apps.service import AppService
from controlplane.errors import Conflict, Forbidden, NotFound
from controlplane.settings import Settings
from controlplane.store import audit
from controlplane.supervision.book import PolicyBook
from tests.acceptance.live import eventually
from tests.stores import StoreHarness, sqlite_harness

SPEC = AppSpec("billing", "process", {"command": ["x"], "cwd": None}, environment={"KEY": "hunter2"})
START = NewAppAction("start", "ada", "token of ada", reason="deploy")
STOP = NewAppAction("stop", "bob", "token of bob")


@dataclass
class FakeLauncher:
    """A driver that runs until it is stopped. `gate`: starts wait for it."""

    phase: DriverPhase = DriverPhase.ENDED
    gate: threading.Event = field(default_factory=threading.Event)
    environments: list[Mapping[str, str]] = field(default_factory=list)

    def start(self, launch: Launch) -> Mapping[str, Any]:
        self.gate.wait(20)
        self.environments.append(launch.environment)
        self.phase = DriverPhase.RUNNING
        return {"pid": 7}

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        self.phase = DriverPhase.ENDED

    def state(self, driver: StartedDriver) -> DriverStatus:
        return DriverStatus(self.phase, f"It is {self.phase}, token=abc123.")

    def logs(self, driver: StartedDriver, lines: int) -> str:
        return "output"


class NoEvidence:
    """Every version is healthy, and every checkpoint allows a rollback."""

    def is_healthy(self, driver: StartedDriver) -> bool:
        return True

    def changes(self, driver: StartedDriver) -> list[str]:
        return []

    def check(self, driver: StartedDriver) -> RollbackCheck:
        return RollbackCheck()


@dataclass
class Server:
    """A service on a store, with a launcher that does as the test wants."""

    harness: StoreHarness
    launcher: FakeLauncher
    apps: AppService
    book: PolicyBook

    def audited(self) -> list[tuple[str, dict[str, Any]]]:
        return [(row["action"], row["detail"]) for row in reversed(self.harness.read(audit.read))]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    launcher = FakeLauncher()
    launcher.gate.set()
    monkeypatch.setattr(module, "launcher_of", lambda driver, directory: launcher)
    with sqlite_harness(tmp_path) as harness:
        apps, book = new_service(harness, tmp_path)
        made = Server(harness, launcher, apps, book)
        made.apps.apply([SPEC], "ada", "t")
        yield made
        launcher.gate.set()
        made.apps.stop()


def new_service(harness: StoreHarness, data_dir: Path) -> tuple[AppService, PolicyBook]:
    @contextmanager
    def reading() -> Iterator[Any]:
        with harness.engine.connect() as connection:
            yield connection

    settings = Settings(data_dir=data_dir, launchers=("process",))
    clock: Callable[[], float] = lambda: harness.now  # noqa: E731
    book = PolicyBook(harness.writer, reading, clock)
    evidence = NoEvidence()
    apps = AppService(settings, harness.writer, harness.window, None, reading, clock, book, evidence)  # type: ignore[arg-type]
    return apps, book


def test_a_start_gives_the_driver_the_agents_environment(server: Server) -> None:
    action, fresh = server.apps.request("billing", START)
    assert (action.state, fresh) == (AppActionState.SUCCEEDED, True)
    (environment,) = server.launcher.environments
    assert environment["CONTROLPLANE_APP"] == "billing"
    assert environment["KEY"] == "hunter2"
    assert environment["CONTROLPLANE_TOKEN_FILE"].endswith("agent.token")


def test_the_audit_names_every_step_and_no_secret(server: Server) -> None:
    server.apps.request("billing", START)
    audited = server.audited()
    assert [what for what, _ in audited] == ["apps.apply", "app.start", "app.start.end"]
    assert audited[1][1]["request_reason"] == "deploy"
    assert "hunter2" not in str(audited)
    assert "abc123" not in str(audited)


def test_one_action_at_a_time_and_one_for_each_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    server.launcher.gate.clear()
    keyed = replace(START, idempotency_key="k")
    action, _ = server.apps.request("billing", keyed)
    assert action.state is AppActionState.RUNNING
    with pytest.raises(Conflict, match="under way"):
        server.apps.request("billing", NewAppAction("restart", "bob", "t"))
    assert server.apps.request("billing", keyed) == (action, False)
    server.launcher.gate.set()
    assert eventually(lambda: server.apps.app("billing").action.state is AppActionState.SUCCEEDED)  # type: ignore[union-attr]
    assert len(server.launcher.environments) == 1


def test_a_stop_during_a_start_is_recorded_and_stops_what_was_started(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    server.launcher.gate.clear()
    server.apps.request("billing", START)
    stop, fresh = server.apps.request("billing", STOP)
    assert (stop.state, fresh) == (AppActionState.RUNNING, True)
    found = server.apps.app("billing")
    assert (found.row.desired, found.row.desired_by) == ("stopped", "bob")
    with pytest.raises(Conflict, match="under way"):
        server.apps.request("billing", START)
    server.launcher.gate.set()
    assert eventually(lambda: outcome_of(server) is AppActionState.SUCCEEDED, 60)
    assert server.launcher.phase is DriverPhase.ENDED
    ends = [(what, detail["state"]) for what, detail in server.audited() if what.endswith(".end")]
    assert sorted(ends)[-2:] == [("app.start.end", "succeeded"), ("app.stop.end", "succeeded")]


def test_a_restart_starts_nothing_after_a_stop_was_requested(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.apps.request("billing", START)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    reached, gate = threading.Event(), threading.Event()

    def slow_stop(driver: StartedDriver, grace_seconds: float) -> None:
        reached.set()
        gate.wait(60)
        server.launcher.phase = DriverPhase.ENDED

    monkeypatch.setattr(server.launcher, "stop", slow_stop)
    server.apps.request("billing", NewAppAction("restart", "ada", "t"))
    assert reached.wait(60)
    server.apps.request("billing", STOP)
    gate.set()
    assert eventually(lambda: outcome_of(server) is AppActionState.SUCCEEDED, 60)
    assert len(server.launcher.environments) == 1
    ends = {what: detail["reason"] for what, detail in server.audited() if what.endswith(".end")}
    assert "a stop was requested meanwhile" in ends["app.restart.end"]


def outcome_of(server: Server) -> AppActionState:
    action = server.apps.app("billing").action
    assert action is not None
    return action.state


def test_the_desired_state_is_the_persons_word(server: Server) -> None:
    server.apps.request("billing", NewAppAction("stop", "bob", "t"))
    assert (server.apps.app("billing").row.desired, server.apps.app("billing").row.desired_by) == (
        "stopped",
        "bob",
    )
    server.apps.apply([replace(SPEC, version="2")], "gitops", "t")
    assert server.apps.app("billing").row.desired == "stopped"
    server.apps.request("billing", START)
    assert server.apps.app("billing").row.desired == "running"


def test_the_end_of_a_driver_is_observed_once(server: Server) -> None:
    server.apps.request("billing", START)
    server.launcher.phase = DriverPhase.ENDED
    server.apps.tick()
    assert eventually(lambda: server.apps.app("billing").status.phase is DriverPhase.ENDED)
    server.apps.tick()
    assert [what for what, _ in server.audited()].count("app.ended") == 1
    assert "abc123" not in server.apps.app("billing").status.reason


def test_a_new_server_asks_again_and_ends_open_actions(server: Server, tmp_path: Path) -> None:
    server.apps.request("billing", START)
    row = server.apps.app("billing").row
    open_action = {**(row.action or {}), "state": "running"}
    server.harness.write(lambda c: module.rows.put(c, replace(row, action=open_action)))
    later, _ = new_service(server.harness, tmp_path)
    later.load()
    found = later.app("billing")
    assert found.action is not None
    assert (found.action.state, found.action.reason) == (AppActionState.FAILED, module.INTERRUPTED)
    assert found.status == module.NOT_ASKED
    later.tick()
    assert eventually(lambda: later.app("billing").status.phase is DriverPhase.RUNNING)
    assert later.request("billing", START)[0].reason.startswith("Nothing to do")
    later.stop()


def test_what_is_switched_off_or_unknown_is_refused(server: Server) -> None:
    with pytest.raises(Forbidden, match="--launcher command"):
        server.apps.apply([replace(SPEC, kind="command")], "ada", "t")
    with pytest.raises(NotFound):
        server.apps.request("orders", START)
    with pytest.raises(Conflict, match="never started"):
        server.apps.logs("billing", 5)


def test_a_defect_of_a_launcher_ends_the_action(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.launcher, "start", lambda launch: 1 / 0)
    action, _ = server.apps.request("billing", START)
    assert (action.state, action.finished_at is not None) == (AppActionState.FAILED, True)
    assert "ZeroDivisionError" in action.reason


POLICIES = """
policies:
  - {name: payments, mode: act, restart: {backoff: {initial: 1s, jitter: 0}}}
"""


def test_a_policy_starts_an_ended_driver_until_a_person_stops_it(server: Server) -> None:
    server.apps.apply([replace(SPEC, policy="payments")], "ada", "t")
    server.book.apply(POLICIES, "ada", "t")
    server.apps.request("billing", START)
    server.launcher.phase = DriverPhase.ENDED
    server.apps.tick()
    assert eventually(lambda: server.apps.app("billing").status.phase is DriverPhase.ENDED)
    server.harness.now += 10.0
    assert eventually(lambda: server.apps.tick() or len(server.launcher.environments) == 2)
    assert eventually(lambda: server.apps.app("billing").action.state is AppActionState.SUCCEEDED)  # type: ignore[union-attr]
    started = server.apps.app("billing")
    assert started.driver is not None
    assert (started.driver.started_by, started.row.desired_by) == ("policy:payments", "ada")

    server.apps.request("billing", NewAppAction("stop", "bob", "t"))
    server.harness.now += 1000.0
    with pytest.raises(Conflict, match="bob set the desired state to stopped"):
        server.apps.request("billing", replace(START, by_policy=True))
    server.apps.tick()
    server.apps.stop()
    assert len(server.launcher.environments) == 2


GIVING_UP = """
policies:
  - {name: payments, mode: act, restart: {budget: {restarts: 0, per: 1h}}}
"""


def test_an_application_that_is_given_up_is_named_until_a_person_starts_it(server: Server) -> None:
    server.apps.apply([replace(SPEC, policy="payments")], "ada", "t")
    server.book.apply(GIVING_UP, "ada", "t")
    server.apps.request("billing", START)
    server.launcher.phase = DriverPhase.ENDED

    def given_up() -> dict[str, str]:
        server.apps.tick()
        return server.apps.given_up()

    assert eventually(lambda: given_up() == {"billing": "payments"}, 60)
    assert given_up() == {"billing": "payments"}
    server.harness.now += 10.0
    server.apps.request("billing", START)
    assert eventually(lambda: given_up() == {}, 60)


def test_an_application_without_a_policy_is_not_given_up(server: Server) -> None:
    server.apps.apply([replace(SPEC, policy="payments")], "ada", "t")
    server.book.apply(GIVING_UP, "ada", "t")
    server.apps.request("billing", START)
    server.launcher.phase = DriverPhase.ENDED
    assert eventually(lambda: server.apps.tick() or server.apps.given_up(), 60)
    server.apps.apply([SPEC], "ada", "t")
    assert eventually(lambda: server.apps.tick() or not server.apps.given_up(), 60)


ROLLING_BACK = """
policies:
  - name: payments
    mode: act
    restart: {rollback: true, backoff: {initial: 1s, jitter: 0}, budget: {reset_after_healthy: 1s}}
"""


def test_a_new_version_that_crashes_gives_way_to_the_last_healthy_one(server: Server) -> None:
    old = replace(SPEC, policy="payments", version="6")
    server.apps.apply([old], "ada", "t")
    server.book.apply(ROLLING_BACK, "ada", "t")
    server.apps.request("billing", START)

    def ticked() -> StartedDriver:
        server.harness.now += 30.0
        server.apps.tick()
        driver = server.apps.app("billing").driver
        assert driver is not None
        return driver

    assert eventually(lambda: (record := ticked().version_record) and record.healthy_at, 60)
    server.apps.apply([replace(old, version="7", environment={"KEY": "hunter3"})], "ada", "t")
    server.apps.request("billing", replace(START, action="restart"))

    def crashed() -> str:
        server.launcher.phase = DriverPhase.ENDED
        return ticked().version

    assert eventually(lambda: crashed() == "6", 120)
    server.launcher.phase = DriverPhase.RUNNING
    # The version is recorded before the driver is started.
    assert eventually(lambda: server.launcher.environments[-1]["KEY"] == "hunter2")
    app = server.apps.app("billing")
    assert (app.spec.version, app.row.desired_by) == ("7", "ada"), "what is declared stays as it is"
    (entry,) = [e for e in server.book.history_of("app:billing", 0.0) if e.code == "rollback"]
    assert (entry.acted, "version 6 → 7; env: KEY" in entry.why) == (True, True)
