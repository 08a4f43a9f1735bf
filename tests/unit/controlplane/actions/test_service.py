"""The control room on a real store: whom a command goes to, and when to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.actions.transitions import LOOK_SECONDS, Ask, is_held
from controlplane.errors import Conflict
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, QueryView
from controlplane.store import actions
from tests.drivers import Driver
from tests.stores import House, sqlite_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with sqlite_house(tmp_path) as opened:
        yield opened


def asked(house: House) -> Action:
    room = ActionService(house.writer, house.window, Outbox(), lambda: house.now)
    view = house.window.view("q")
    assert view is not None
    return room.ask(view, Ask("stop", "ann", "cli"))[0]


def test_while_two_drivers_run_one_query_id_no_command_goes_to_either(house: House) -> None:
    prod, staging = Driver(app="prod"), Driver(app="staging")
    house.accept(prod.started("q", "r1", at=house.now - 20))
    house.accept(staging.started("q", "r2", at=house.now - 10))
    house.accept(prod.progress("q", "r1", 1, at=house.now))
    action = asked(house)
    assert (action.app, action.agent) == ("staging", staging.agent)
    assert (action.state, action.evidence["code"]) == (ActionState.REFUSED, "two_drivers")
    house.accept(prod.terminated("q", "r1", at=house.now))
    assert asked(house).state == ActionState.REQUESTED


def test_a_driver_that_fell_silent_does_not_hold_up_the_one_that_took_its_place(house: House) -> None:
    dead, new = Driver(), Driver()
    silent_since = house.now - DEFAULTS.unheard_seconds - 20
    house.accept(dead.started("q", "r1", at=silent_since))
    house.accept(new.started("q", "r2", at=silent_since + 10))
    assert asked(house).state == ActionState.REQUESTED


class Mute:
    """A doctor whose inventories never come; or who cannot look at all."""

    def __init__(self, refusal: str = ""):
        self.asked: list[str] = []
        self._refusal = refusal

    def look_before_start(self, view: QueryView) -> None:
        self.asked.append(view.query_id)
        if self._refusal:
            raise Conflict(self._refusal)

    def trouble(self, query_id: str) -> str | None:
        return None

    def looking(self, query_id: str) -> object | None:
        return self


def room_of(house: House, outbox: Outbox, doctor: Mute) -> ActionService:
    return ActionService(house.writer, house.window, outbox, lambda: house.now, doctor)


def wish(house: House, room: ActionService, **more: bool) -> Action:
    view = house.window.view("q")
    assert view is not None
    return room.ask(view, Ask("restart", "ann", "cli", **more))[0]


def current(house: House, action: Action) -> Action:
    found = house.read(actions.get, action.id)
    assert isinstance(found, Action)
    return found


def test_a_start_that_waits_for_a_look_is_not_handed_out_and_survives_a_restart_of_the_server(
    house: House,
) -> None:
    driver = Driver()
    house.accept(driver.started("q", "r1", at=house.now - 20))
    outbox = Outbox()
    action = wish(house, room_of(house, outbox, Mute()))
    assert is_held(action)
    assert outbox.due(driver.agent, None, house.now) == []
    later, again = Outbox(), Mute()
    room = room_of(house, later, again)
    room.load(house.read(actions.open_actions))
    assert later.due(driver.agent, None, house.now) == []
    room.tick_looks()
    house.now += LOOK_SECONDS
    room.tick_looks()
    house.writer.write(lambda connection: None)
    assert not is_held(current(house, action))
    assert [one.id for one in later.due(driver.agent, None, house.now)] == [action.id]
    assert again.asked == []


def test_where_nobody_can_look_a_start_goes_on_at_once(house: House) -> None:
    driver = Driver()
    house.accept(driver.started("q", "r1", at=house.now - 20))
    action = wish(house, room_of(house, Outbox(), Mute("its agent did not answer the last time")))
    assert (action.state, is_held(action)) == (ActionState.REQUESTED, False)
    assert action.evidence["checkpoint"] == "not seen: its agent did not answer the last time"


def test_by_force_nobody_is_asked(house: House) -> None:
    house.accept(Driver().started("q", "r1", at=house.now - 20))
    doctor = Mute()
    action = wish(house, room_of(house, Outbox(), doctor), force=True)
    assert (doctor.asked, is_held(action), action.evidence["forced_by"]) == ([], False, "ann")
