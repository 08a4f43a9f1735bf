"""A status that repeats what is known changes only times, which are stored now and then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.events.quiet import MAX_UNSTORED_SECONDS
from controlplane.model import QueryView
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def listed(driver: Driver, at: float, **more: Any) -> bytes:
    waiting = {"message": "Waiting for next trigger", "isDataAvailable": True, "isTriggerActive": False}
    entry = {"id": "q", "runId": "r", "name": "orders", **waiting, **more}
    return driver.line("status", {"queries": [entry], "listedAt": at}, at)


def known(harness: StoreHarness) -> tuple[Driver, QueryView]:
    """A query with a status of BEGIN, and its view."""
    driver = Driver()
    started = driver.line("started", {"id": "q", "runId": "r", "name": "orders"}, BEGIN)
    harness.accept(started, listed(driver, BEGIN))
    return driver, harness.window.views()[0]


def status_at(view: QueryView | None) -> float | None:
    return view.status.at if view is not None and view.status is not None else None


def test_a_repeated_status_is_no_news_and_is_known_when_asked_for(harness: StoreHarness) -> None:
    driver, before = known(harness)
    harness.accept(listed(driver, BEGIN + 10))
    assert harness.window.views() == [before]
    assert harness.window.views()[0] is before
    assert status_at(harness.reloaded().view("q")) == BEGIN
    seen = harness.window.view("q")
    assert status_at(seen) == BEGIN + 10
    assert seen is not None
    assert seen.last_event_at == BEGIN + 10


def test_the_store_is_never_later_than_the_limit(harness: StoreHarness) -> None:
    driver, before = known(harness)
    for second in range(5, 65, 5):
        harness.accept(listed(driver, BEGIN + second))
        stored = status_at(harness.reloaded().view("q"))
        assert stored is not None
        assert BEGIN + second - stored < MAX_UNSTORED_SECONDS
    assert harness.window.views()[0] is not before


def test_a_change_after_quiet_statuses_is_stored_with_their_times(harness: StoreHarness) -> None:
    driver, _ = known(harness)
    harness.accept(listed(driver, BEGIN + 5))
    harness.accept(listed(driver, BEGIN + 10, message="Processing new data", isTriggerActive=True))
    assert harness.reloaded().view("q") == harness.window.view("q")


@pytest.mark.parametrize(
    "more",
    [
        {"isTriggerActive": True},
        {"message": "Waiting for data to arrive", "isDataAvailable": False},
        {"message": "Getting offsets from source"},
        {"name": "orders-2"},
        {"facts": {"trigger": "once"}},
        {"runId": "r2"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_every_other_status_is_stored_at_once(harness: StoreHarness, more: dict[str, Any]) -> None:
    driver, before = known(harness)
    harness.accept(listed(driver, BEGIN + 10, **more))
    assert harness.window.views()[0] is not before
    assert status_at(harness.reloaded().view("q")) == BEGIN + 10


@pytest.mark.parametrize(
    "more",
    [
        {"message": "Processing new data", "isTriggerActive": True},
        {"message": "Waiting for data to arrive", "isDataAvailable": False},
    ],
    ids=["runs", "waits for data"],
)
def test_a_batch_that_runs_and_the_wait_for_data_are_news_each_time(
    harness: StoreHarness, more: dict[str, Any]
) -> None:
    driver, _ = known(harness)
    for at in (BEGIN + 20, BEGIN + 21):
        harness.accept(listed(driver, at, **more))
        assert status_at(harness.reloaded().view("q")) == at


def test_the_status_of_another_driver_on_the_checkpoint_is_news(harness: StoreHarness) -> None:
    _, before = known(harness)
    harness.accept(listed(Driver(), BEGIN + 10))
    assert harness.window.views()[0] is not before
