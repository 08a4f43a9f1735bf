"""After a driver was ended in an orderly way, the failure of the next one concerns its queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.driver_model import FailedDriver
from controlplane.events.window import Window
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness

STOPPED_AT, FAILED_AT = BEGIN + 10, BEGIN + 40


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    """The queries `q` and `p`, whose driver SIGTERM has ended."""
    old = Driver()
    with sqlite_harness(tmp_path) as opened:
        opened.accept(old.line("app_started", {}), old.started("q", "r"), old.started("p", "s"))
        opened.accept(old.line("app_ended", {"reason": "sigterm"}, at=STOPPED_AT))
        yield opened


def restart(harness: StoreHarness, **end: str) -> Driver:
    driver = Driver()
    harness.accept(driver.line("app_started", {}, at=BEGIN + 20))
    if end:
        harness.accept(driver.line("app_ended", end, at=FAILED_AT))
    return driver


def next_driver(window: Window, query_id: str) -> FailedDriver | None:
    view = window.view(query_id)
    assert view is not None
    return view.next_driver


def test_failed_next_driver_is_known_to_all_queries_of_the_application(harness: StoreHarness) -> None:
    restart(harness, reason="exception", exception="ValueError: bad config")
    failed = FailedDriver(FAILED_AT, "ValueError: bad config")
    assert {next_driver(harness.window, name) for name in "qp"} == {failed}
    assert next_driver(harness.reloaded(), "q") == failed


@pytest.mark.parametrize("end", [{}, {"reason": "exit"}, {"reason": "sigterm"}])
def test_next_driver_that_runs_or_ended_in_order_is_none(harness: StoreHarness, end: dict[str, str]) -> None:
    restart(harness, **end)
    assert next_driver(harness.window, "q") is None


def test_driver_that_has_started_a_query_speaks_for_its_own_queries(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.line("app_started", {}, at=BEGIN + 20), driver.started("p", "t", at=BEGIN + 25))
    harness.accept(driver.line("app_ended", {"reason": "exception"}, at=FAILED_AT))
    assert next_driver(harness.window, "q") is None


def test_failure_goes_with_the_next_attempt(harness: StoreHarness) -> None:
    restart(harness, reason="exception")
    another = Driver()
    harness.accept(another.line("app_started", {}, at=FAILED_AT + 5))
    assert next_driver(harness.window, "q") is None


def test_driver_that_ran_beside_the_ended_one_is_none_that_follows_it(tmp_path: Path) -> None:
    old, beside = Driver(), Driver()
    with sqlite_harness(tmp_path) as harness:
        harness.accept(old.line("app_started", {}), old.started("q", "r"))
        harness.accept(beside.line("app_started", {}, at=BEGIN + 5))
        harness.accept(old.line("app_ended", {"reason": "sigterm"}, at=STOPPED_AT))
        harness.accept(beside.line("app_ended", {"reason": "exception"}, at=FAILED_AT))
        assert next_driver(harness.window, "q") is None


def test_driver_of_another_application_concerns_nobody(harness: StoreHarness) -> None:
    other = Driver(app="other")
    harness.accept(other.line("app_started", {}, at=BEGIN + 20))
    harness.accept(other.line("app_ended", {"reason": "exception"}, at=FAILED_AT))
    assert next_driver(harness.window, "q") is None


def test_the_begin_of_the_next_driver_is_news_of_the_queries_of_the_one_before(tmp_path: Path) -> None:
    old, following = Driver(), Driver()
    with sqlite_harness(tmp_path) as harness:
        harness.accept(old.line("app_started", {}), old.started("q", "r"))
        view = harness.window.view("q")
        assert view is not None and view.next_driver_at is None
        harness.accept(following.line("app_started", {}, at=BEGIN + 20))
        view = harness.window.view("q")
        assert view is not None and view.next_driver_at is not None
