"""A query without a name on a temporary checkpoint comes back under another id, in the next driver only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.events.window import Window
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness

TEMPORARY = {"checkpoint": "/tmp/temporary-1", "checkpointIsTemporary": True}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def start(harness: StoreHarness, driver: Driver, query_id: str, at: float, **facts: object) -> None:
    entry = {"id": query_id, "runId": f"run of {query_id}", "facts": TEMPORARY | facts}
    harness.accept(
        driver.started(query_id, f"run of {query_id}", name=None, at=at), driver.status(entry, at=at)
    )


def successors(window: Window) -> dict[str, str | None]:
    return {view.query_id: window.superseded(view.query_id) for view in window.views()}


def test_query_of_a_killed_driver_gives_way_to_that_of_the_next_one(harness: StoreHarness) -> None:
    start(harness, Driver(), "old", BEGIN)
    start(harness, Driver(), "new", BEGIN + 30)
    for window in (harness.window, harness.reloaded()):
        assert successors(window) == {"old": "new", "new": None}
        assert [view.query_id for view in window.fleet()] == ["new"]


def test_queries_of_one_driver_stay_also_where_one_has_failed(harness: StoreHarness) -> None:
    driver = Driver()
    start(harness, driver, "one", BEGIN)
    start(harness, driver, "two", BEGIN + 5)
    harness.accept(driver.terminated("one", "run of one", exception="boom", at=BEGIN + 9))
    assert successors(harness.window) == {"one": None, "two": None}


def test_failed_query_of_a_living_driver_stays_beside_those_of_another(harness: StoreHarness) -> None:
    first = Driver()
    start(harness, first, "one", BEGIN)
    start(harness, Driver(), "two", BEGIN + 5)
    harness.accept(first.terminated("one", "run of one", exception="boom", at=BEGIN + 9))
    assert successors(harness.window) == {"one": None, "two": None}


def test_query_with_a_checkpoint_of_its_own_keeps_its_place(harness: StoreHarness) -> None:
    start(harness, Driver(), "old", BEGIN, checkpointIsTemporary=False)
    start(harness, Driver(), "new", BEGIN + 30)
    assert successors(harness.window) == {"old": None, "new": None}


def in_fleet(harness: StoreHarness, now: float) -> set[str]:
    harness.now = now
    found = {
        frozenset(view.query_id for view in window.fleet()) for window in (harness.window, harness.reloaded())
    }
    return set(found.pop())


def test_healthy_anonymous_query_stays_while_another_driver_starts_one(harness: StoreHarness) -> None:
    """Its next heartbeat is due after the other driver began."""
    start(harness, Driver(), "one", BEGIN)
    start(harness, Driver(), "two", BEGIN + 5)
    assert in_fleet(harness, BEGIN + 6) == {"one", "two"}
    assert in_fleet(harness, BEGIN + 91) == {"two"}


@pytest.mark.parametrize("end", [None, "exception"])
def test_dead_driver_s_anonymous_query_stays_when_a_driver_beside_it_starts_its_own_again(
    harness: StoreHarness, end: str | None
) -> None:
    dead, beside = Driver(), Driver()
    start(harness, dead, "dead", BEGIN)
    start(harness, beside, "own", BEGIN + 1)
    harness.accept(dead.line("heartbeat", {}, BEGIN + 20))
    if end is not None:
        harness.accept(dead.line("app_ended", {"reason": end}, BEGIN + 21))
    start(harness, beside, "own again", BEGIN + 60)
    assert in_fleet(harness, BEGIN + 200) == {"dead", "own", "own again"}
    start(harness, Driver(), "next", BEGIN + 210)
    start(harness, beside, "own once more", BEGIN + 220)
    assert "dead" not in in_fleet(harness, BEGIN + 221)


@pytest.mark.parametrize("end", ["killed", "exception", "failed"])
def test_dead_driver_s_named_query_stays_when_a_driver_beside_it_starts_its_own_again(
    harness: StoreHarness, end: str
) -> None:
    dead, beside = Driver(), Driver()
    harness.accept(dead.started("theirs", "r1", at=BEGIN), beside.started("own", "r2", at=BEGIN + 1))
    harness.accept(dead.line("heartbeat", {}, BEGIN + 20))
    if end == "failed":
        harness.accept(dead.terminated("theirs", "r1", "boom", at=BEGIN + 21))
    if end == "exception":
        harness.accept(dead.line("app_ended", {"reason": end}, BEGIN + 21))
    harness.accept(beside.started("own", "r3", at=BEGIN + 60))
    assert in_fleet(harness, BEGIN + 200) == {"theirs", "own"}
    harness.accept(Driver().started("theirs on a new checkpoint", "r4", at=BEGIN + 210))
    harness.accept(beside.started("own", "r5", at=BEGIN + 220))
    assert "theirs" not in in_fleet(harness, BEGIN + 221)


def test_query_that_was_started_again_on_an_older_checkpoint_has_replaced_the_failed_one(
    harness: StoreHarness,
) -> None:
    driver, following = Driver(), Driver()
    harness.accept(driver.started("old", "r1", at=BEGIN), driver.terminated("old", "r1", at=BEGIN + 1))
    harness.accept(driver.started("new", "r2", at=BEGIN + 2))
    harness.accept(driver.terminated("new", "r2", "boom", at=BEGIN + 3))
    harness.accept(following.started("old", "r3", at=BEGIN + 9))
    assert in_fleet(harness, BEGIN + 10) == {"old"}


def test_running_query_is_not_replaced_by_one_of_its_name_that_failed_to_start(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("runs", "r1", at=BEGIN))
    failed = {"id": "failed", "name": "orders", "exception": "no table"}
    harness.accept(driver.line("start_failed", failed, BEGIN + 5))
    assert in_fleet(harness, BEGIN + 6) == {"runs", "failed"}
