"""Runs of one query in two drivers: which is the newest, and which counts as lost, also where clocks are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from listeners.protocol import wire
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def accept(harness: StoreHarness, now: float, *lines: bytes, sent_at: float | None = None) -> None:
    """Receive a request of the driver of these events at `now`, by the server's clock."""
    harness.now = now
    for line in lines:
        harness.window.note_contact(wire.decode_event(line).agent, now)
    harness.accept(*lines, sent_at=sent_at)


def newest_run(harness: StoreHarness) -> str | None:
    (view,), (reloaded,) = harness.window.views(), harness.reloaded().views()
    assert view.run == reloaded.run
    return view.run.run_id if view.run is not None else None


@pytest.mark.parametrize("end", [[], [{"reason": "sigterm"}]], ids=["killed", "ended"])
def test_run_of_the_next_driver_is_the_newest_although_its_clock_is_behind(
    harness: StoreHarness, end: list[dict[str, str]]
) -> None:
    """50 s behind: the first requests may as well have taken so long."""
    old, new = Driver(), Driver()
    accept(harness, BEGIN, old.started("q", "r1", at=BEGIN), sent_at=BEGIN)
    accept(harness, BEGIN + 9, *(old.line("app_ended", data, BEGIN + 9) for data in end), sent_at=BEGIN + 9)
    accept(harness, BEGIN + 30, new.started("q", "r2", at=BEGIN - 20), sent_at=BEGIN - 20)
    for batch, now in enumerate((BEGIN + 50, BEGIN + 60)):
        accept(harness, now, new.progress("q", "r2", batch, at=now - 50), sent_at=now - 50)
    assert newest_run(harness) == "r2"
    accept(harness, BEGIN + 62, new.terminated("q", "r2", "boom", at=BEGIN + 12), sent_at=BEGIN + 12)
    accept(harness, BEGIN + 70, new.line("heartbeat", {}, BEGIN + 20), sent_at=BEGIN + 20)
    assert newest_run(harness) == "r2"


def test_run_that_started_while_the_clock_of_the_server_was_ahead_gives_way_to_the_next(
    harness: StoreHarness,
) -> None:
    old, new, ahead = Driver(), Driver(), 3600.0
    accept(harness, BEGIN + ahead, old.started("q", "r1", at=BEGIN), sent_at=BEGIN)
    accept(harness, BEGIN + 20, new.started("q", "r2", at=BEGIN + 20), sent_at=BEGIN + 20)
    accept(harness, BEGIN + 100, new.progress("q", "r2", 0, at=BEGIN + 100), sent_at=BEGIN + 100)
    assert newest_run(harness) == "r2"
    accept(harness, BEGIN + ahead + 50, new.progress("q", "r2", 1, at=BEGIN + ahead + 50))
    assert newest_run(harness) == "r2"


def test_events_of_an_earlier_run_that_arrive_late_do_not_make_it_the_newest(harness: StoreHarness) -> None:
    old, new = Driver(), Driver()
    late = old.started("q", "r1", at=BEGIN)
    accept(harness, BEGIN + 30, new.started("q", "r2", at=BEGIN + 30), sent_at=BEGIN + 30)
    accept(harness, BEGIN + 31, late, sent_at=BEGIN + 31)
    assert newest_run(harness) == "r2"
    harness.now = BEGIN + 200  # another agent sends what the dead one has left
    harness.accept(old.progress("q", "r1", 0, at=BEGIN + 5), sent_at=BEGIN + 200)
    assert newest_run(harness) == "r2"


def test_driver_whose_events_arrive_late_is_not_lost_while_it_is_in_contact(harness: StoreHarness) -> None:
    late, beside = Driver(), Driver()
    accept(harness, BEGIN, late.started("q", "r1", at=BEGIN))
    harness.window.note_contact(late.agent, BEGIN + 290)
    accept(harness, BEGIN + 300, beside.started("q", "r2", at=BEGIN + 300))
    assert "failures|lost" not in harness.window.totals("q")
    accept(harness, BEGIN + 400, beside.progress("q", "r2", 0, at=BEGIN + 400))
    assert harness.window.totals("q")["failures|lost"] == 1
