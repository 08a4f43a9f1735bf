"""One writer for each checkpoint: who holds it, who is seen beside the holder, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.actions.transitions import NewAction
from controlplane.apps.guard import start_refusal
from controlplane.apps.model import DriverPhase, DriverStatus
from controlplane.health.checkpoint_drivers import going_on, overlapping
from controlplane.health.judge import judge
from controlplane.model import QueryView
from controlplane.store.supervision import checkpoint_leases as rows
from controlplane.supervision.checkpoint_leases import CheckpointLeases, settle
from controlplane.supervision_model import CheckpointWriter
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness

NOW = 1_000_000.0
BUCKET = "s3a://bucket/orders"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def writer(agent: str, started: float, seen: float = NOW, ended: float | None = None) -> CheckpointWriter:
    return CheckpointWriter("q", f"run-{agent}", started, BUCKET, agent, f"app-{agent}", seen, ended)


def test_the_holder_keeps_a_checkpoint_while_it_may_live_and_the_number_rises_with_each_driver() -> None:
    first = settle(None, [writer("a", NOW - 50)], NOW)
    assert first is not None and (first.number, first.agent, first.previous_app) == (1, "a", None)
    assert settle(first, [], NOW) is first
    both = [writer("a", NOW - 50), writer("b", NOW - 5)]
    assert settle(first, both, NOW) == first
    silent = [writer("a", NOW - 50, seen=NOW - 40), writer("b", NOW - 5)]
    second = settle(first, silent, NOW)
    assert second is not None and (second.number, second.agent, second.app) == (2, "b", "app-b")
    assert second.previous_app == "app-a"
    assert settle(second, both, NOW) == second  # the first is back: it does not get the checkpoint again
    ended = settle(second, [writer("a", NOW - 50)], NOW + 9)
    assert ended is not None and (ended.number, ended.agent, ended.taken_at) == (3, "a", NOW + 9)


def test_a_silent_holder_without_a_rival_keeps_its_checkpoint() -> None:
    first = settle(None, [writer("a", NOW - 500)], NOW - 400)
    assert settle(first, [writer("a", NOW - 500, seen=NOW - 400)], NOW) == first


class Fleet:
    """Drivers on hosts, a window and the leases."""

    def __init__(self, harness: StoreHarness):
        self.harness = harness
        self.leases = CheckpointLeases(harness.window, harness.writer, lambda: harness.now)

    def start(self, app: str, query_id: str, location: str, ago: float, host: str = "h1") -> Driver:
        driver, at = Driver(app), self.harness.now - ago
        facts = {"checkpoint": location}
        self.harness.accept(
            driver.line("app_started", {"host": host}, at),
            driver.line("started", {"id": query_id, "runId": f"{app}-r", "facts": facts}, at),
        )
        self.leases.tick()
        return driver

    def seen(self, *drivers: Driver) -> None:
        for driver in drivers:
            self.harness.accept(driver.line("heartbeat", {}, self.harness.now))
        self.leases.tick()

    def view(self, query_id: str) -> QueryView:
        view = self.harness.window.view(query_id)
        assert view is not None
        return view


def test_two_drivers_on_one_checkpoint_are_seen_from_both_sides_and_commands_name_the_holder(
    harness: StoreHarness,
) -> None:
    fleet = Fleet(harness)
    first = fleet.start("billing", "q1", "file:///ck/orders", ago=60)
    fleet.seen(first)
    second = fleet.start("trial", "q2", "/ck/orders/", ago=30)  # the checkpoint was deleted meanwhile
    fleet.seen(first, second)
    assert [a.agent for a in overlapping(fleet.view("q1"))] == [second.agent]
    assert [a.agent for a in overlapping(fleet.view("q2"))] == [first.agent]
    lease = fleet.view("q2").supervised.lease
    assert lease is not None and (lease.number, lease.agent, lease.app) == (1, first.agent, "billing")
    service = ActionService(harness.writer, harness.window, Outbox(), lambda: harness.now)
    for query_id in ("q1", "q2"):
        action, _ = service.request(fleet.view(query_id), NewAction("restart", "policy:p", "supervisor"))
        assert action.evidence["code"] == "two_drivers"
        assert f"billing/{first.agent[:8]} has held it since" in action.reason and "lease 1" in action.reason
    harness.accept(second.terminated("q2", "trial-r", at=harness.now))
    fleet.leases.tick()
    assert overlapping(fleet.view("q1")) == [] and len(fleet.view("q1").writers) == 1


def test_a_run_that_has_not_reported_its_location_takes_no_lease_from_the_driver_that_runs(
    harness: StoreHarness,
) -> None:
    fleet = Fleet(harness)
    first = fleet.start("billing", "q", "", ago=60)
    listed = {"id": "q", "runId": "billing-r", "facts": {"checkpoint": BUCKET}}
    harness.accept(first.status(listed, at=harness.now))
    fleet.seen(first)
    second = fleet.start("trial", "q", "", ago=1)
    for _ in range(2):
        lease = fleet.view("q").supervised.lease
        assert lease is not None and (lease.number, lease.agent, lease.checkpoint) == (1, first.agent, BUCKET)
        harness.accept(second.terminated("q", "trial-r", at=harness.now))
        fleet.seen(first)


def test_the_driver_that_goes_on_is_seen_after_the_newer_one_has_failed(harness: StoreHarness) -> None:
    """Spark ends one of the two queries within about a second, here the newer one."""
    fleet = Fleet(harness)
    first = fleet.start("billing", "q", BUCKET, ago=60)
    fleet.seen(first)
    second = fleet.start("trial", "q", BUCKET, ago=1)
    harness.accept(second.terminated("q", "trial-r", at=harness.now))
    service = ActionService(harness.writer, harness.window, Outbox(), lambda: harness.now)
    for _ in range(2):  # the first driver sends heartbeats only
        harness.now += 20
        fleet.seen(first, second)
        view = fleet.view("q")
        assert [run.agent for run in going_on(view, harness.now)] == [first.agent]
        reason = judge(view, harness.now).reason
        assert f"Another driver goes on with the query: billing/{first.agent[:8]}." in reason
        action, _ = service.request(view, NewAction("start", "ada", "cli"))
        assert action.evidence["code"] == "two_drivers"
        assert [agent.agent for _, agent in fleet.leases.held_from("trial")] == [first.agent]
        assert list(fleet.leases.held_from("billing")) == []
    harness.accept(first.terminated("q", "billing-r", at=harness.now))
    assert going_on(fleet.view("q"), harness.now) == []
    assert service.request(fleet.view("q"), NewAction("start", "ada", "cli"))[0].state != "refused"


def test_a_driver_that_was_killed_before_the_newer_one_failed_does_not_go_on(harness: StoreHarness) -> None:
    fleet = Fleet(harness)
    fleet.start("billing", "q", BUCKET, ago=20)
    second = fleet.start("billing-2", "q", BUCKET, ago=5)
    harness.accept(second.terminated("q", "billing-2-r", at=harness.now))
    fleet.seen(second)
    assert len(fleet.view("q").beside) == 1 and going_on(fleet.view("q"), harness.now) == []
    assert list(fleet.leases.held_from("billing-2")) == []


def test_one_local_path_on_two_hosts_is_two_checkpoints(harness: StoreHarness) -> None:
    fleet = Fleet(harness)
    drivers = [fleet.start(app, f"q-{app}", "/ck/orders", ago=60, host=app) for app in ("a", "b")]
    fleet.seen(*drivers)
    assert [len(fleet.view(f"q-{app}").writers) for app in ("a", "b")] == [1, 1]


def test_a_killed_driver_and_its_successor_do_not_overlap(harness: StoreHarness) -> None:
    fleet = Fleet(harness)
    fleet.start("billing", "q", BUCKET, ago=20)
    second = fleet.start("billing-2", "q", BUCKET, ago=15)
    fleet.seen(second)
    view = fleet.view("q")
    assert len(view.writers) == 2 and overlapping(view) == []
    harness.now += 60
    fleet.seen(second)
    lease = fleet.view("q").supervised.lease
    assert lease is not None and (lease.number, lease.agent) == (2, second.agent)


def test_leases_and_rivals_survive_a_restart_of_the_server(harness: StoreHarness) -> None:
    fleet = Fleet(harness)
    drivers = [fleet.start("a", "q", BUCKET, ago=60), fleet.start("b", "q", BUCKET, ago=40)]
    fleet.seen(*drivers)
    before = fleet.view("q")
    harness.window = harness.reloaded()
    again = CheckpointLeases(harness.window, harness.writer, lambda: harness.now)
    again.load(harness.read(rows.all_leases))
    again.tick()
    after = harness.window.view("q")
    assert after is not None and after.writers == before.writers and len(after.writers) == 2
    assert after.supervised.lease == before.supervised.lease


def test_no_driver_is_started_beside_one_of_another_application_on_its_checkpoint(
    harness: StoreHarness,
) -> None:
    fleet = Fleet(harness)
    first = fleet.start("billing", "q", BUCKET, ago=60)
    harness.accept(first.line("app_ended", {"reason": "exit"}, harness.now - 50))
    trial = fleet.start("trial", "q", BUCKET, ago=40)
    fleet.seen(trial)
    held = list(fleet.leases.held_from("billing"))
    ended = DriverStatus(DriverPhase.ENDED, "It ended.")
    refusal = start_refusal("billing", None, ended, [], harness.now, held)
    assert refusal is not None and f"trial/{trial.agent[:8]} has held the checkpoint {BUCKET}" in refusal
    harness.accept(trial.terminated("q", "trial-r", at=harness.now))
    assert list(fleet.leases.held_from("billing")) == []


def test_the_lease_of_a_deleted_query_is_deleted(harness: StoreHarness) -> None:
    fleet = Fleet(harness)
    fleet.start("billing", "q", BUCKET, ago=60)
    fleet.leases.prune()
    assert len(harness.read(rows.all_leases)) == 1
    harness.window.forget(["q"])
    fleet.leases.prune()
    assert harness.read(rows.all_leases) == []
