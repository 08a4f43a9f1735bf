"""The control room on a real store: whom a command goes to, and when to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.control.actions import Ask
from controlplane.control.outbox import Outbox
from controlplane.control.room import ControlRoom
from controlplane.model import Action, ActionState
from controlplane.thresholds import DEFAULTS
from tests.drivers import Driver
from tests.stores import House, sqlite_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with sqlite_house(tmp_path) as opened:
        yield opened


def asked(house: House) -> Action:
    room = ControlRoom(house.writer, house.window, Outbox(), lambda: house.now)
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
