"""ActionService on a real store: which agent a command goes to, and starts that wait for an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.actions.transitions import INVENTORY_WAIT_SECONDS, NewAction, is_held
from controlplane.errors import Conflict
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, QueryView
from controlplane.store import actions
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def asked(harness: StoreHarness) -> Action:
    service = ActionService(harness.writer, harness.window, Outbox(), lambda: harness.now)
    view = harness.window.view("q")
    assert view is not None
    return service.request(view, NewAction("stop", "ann", "cli"))[0]


def test_while_two_drivers_run_one_query_id_no_command_goes_to_either(harness: StoreHarness) -> None:
    prod, staging = Driver(app="prod"), Driver(app="staging")
    harness.accept(prod.started("q", "r1", at=harness.now - 20))
    harness.accept(staging.started("q", "r2", at=harness.now - 10))
    harness.accept(prod.progress("q", "r1", 1, at=harness.now))
    action = asked(harness)
    assert (action.app, action.agent) == ("staging", staging.agent)
    assert (action.state, action.evidence["code"]) == (ActionState.REFUSED, "two_drivers")
    harness.accept(prod.terminated("q", "r1", at=harness.now))
    assert asked(harness).state == ActionState.REQUESTED


def test_a_driver_whose_events_are_late_is_another_driver_while_it_sends_requests(
    harness: StoreHarness,
) -> None:
    prod, staging = Driver(app="prod"), Driver(app="staging")
    harness.accept(
        prod.started("q", "r1", at=harness.now - 80), prod.progress("q", "r1", 1, at=harness.now - 60)
    )
    harness.accept(staging.started("q", "r2", at=harness.now - 10))
    assert harness.window.view("q") is not None  # as built before the contact
    harness.window.note_contact(prod.agent, harness.now - 5)
    assert asked(harness).evidence["code"] == "two_drivers"


def test_no_command_goes_to_a_driver_when_another_has_started_the_query_since(harness: StoreHarness) -> None:
    first, following = Driver(), Driver()
    harness.accept(first.started("q", "r1", at=harness.now - 20))
    service = ActionService(harness.writer, harness.window, Outbox(), lambda: harness.now)
    view = harness.window.view("q")
    assert view is not None
    action, _ = service.request(view, NewAction("restart", "policy:p", "policy"))
    harness.accept(following.started("q", "r2", at=harness.now))
    sent = service.deliver(action).result()
    assert (sent.state, sent.evidence["code"]) == (ActionState.REFUSED, "driver_changed")


def test_a_driver_that_fell_silent_does_not_hold_up_the_one_that_took_its_place(
    harness: StoreHarness,
) -> None:
    dead, new = Driver(), Driver()
    silent_since = harness.now - DEFAULTS.unresponsive_seconds - 20
    harness.accept(dead.started("q", "r1", at=silent_since))
    harness.accept(new.started("q", "r2", at=silent_since + 10))
    assert asked(harness).state == ActionState.REQUESTED


class Mute:
    """A doctor whose inventories never come; or who cannot look at all."""

    def __init__(self, refusal: str = ""):
        self.asked: list[str] = []
        self._refusal = refusal

    def request_before_start(self, view: QueryView) -> None:
        self.asked.append(view.query_id)
        if self._refusal:
            raise Conflict(self._refusal)

    def trouble(self, query_id: str) -> str | None:
        return None

    def pending_request(self, query_id: str) -> object | None:
        return self


def service_of(harness: StoreHarness, outbox: Outbox, doctor: Mute) -> ActionService:
    return ActionService(harness.writer, harness.window, outbox, lambda: harness.now, doctor)


def wish(harness: StoreHarness, service: ActionService, **more: bool) -> Action:
    view = harness.window.view("q")
    assert view is not None
    return service.request(view, NewAction("restart", "ann", "cli", **more))[0]


def current(harness: StoreHarness, action: Action) -> Action:
    found = harness.read(actions.get, action.id)
    assert isinstance(found, Action)
    return found


def test_a_start_that_waits_for_a_look_is_not_handed_out_and_survives_a_restart_of_the_server(
    harness: StoreHarness,
) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1", at=harness.now - 20))
    outbox = Outbox()
    action = wish(harness, service_of(harness, outbox, Mute()))
    assert is_held(action)
    assert outbox.due(driver.agent, None, harness.now) == []
    later, again = Outbox(), Mute()
    service = service_of(harness, later, again)
    service.load(harness.read(actions.open_actions))
    assert later.due(driver.agent, None, harness.now) == []
    service.tick_checkpoints()
    harness.now += INVENTORY_WAIT_SECONDS
    service.tick_checkpoints()
    harness.writer.write(lambda connection: None)
    assert not is_held(current(harness, action))
    assert [item.id for item in later.due(driver.agent, None, harness.now)] == [action.id]
    assert again.asked == []


def test_without_an_inspector_a_start_proceeds_at_once(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1", at=harness.now - 20))
    action = wish(harness, service_of(harness, Outbox(), Mute("its agent did not answer the last time")))
    assert (action.state, is_held(action)) == (ActionState.REQUESTED, False)
    assert action.evidence["checkpoint"] == "not checked: its agent did not answer the last time"


def test_force_skips_the_check(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q", "r1", at=harness.now - 20))
    doctor = Mute()
    action = wish(harness, service_of(harness, Outbox(), doctor), force=True)
    assert (doctor.asked, is_held(action), action.evidence["forced_by"]) == ([], False, "ann")
