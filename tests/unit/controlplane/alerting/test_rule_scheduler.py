"""Slots are kept or left out, never made up for; hurry, clocks that are set, and failing work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from controlplane.alerting.rule_scheduler import RuleScheduler
from tests.acceptance.live import eventually
from tests.unit.controlplane.alerting.parts import NOW, Clock

STEP = 15.0


class Schedulers:
    """A scheduler with a clock by hand that notes what it was asked to do. `fails`: what fails."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ticks: list[float] = []
        self.looks: list[float] = []
        self.fails: set[str] = set()
        self.scheduler = RuleScheduler(
            STEP, self._noting("tick", self.ticks), self._noting("look", self.looks), self.clock
        )

    def _noting(self, what: str, noted: list[float]) -> Callable[[float], None]:
        def work(at: float) -> None:
            noted.append(at)
            if what in self.fails:
                raise OSError("disk on fire")

        return work

    def at(self, now: float) -> None:
        """Set the clock and wake the thread, which else sleeps to the next slot in real time."""
        self.clock.now = now
        seen = len(self.looks)
        self.scheduler.request()
        assert eventually(lambda: len(self.looks) > seen)


@pytest.fixture
def schedulers() -> Iterator[Schedulers]:
    item = Schedulers()
    item.scheduler.start()
    yield item
    item.scheduler.stop()


def test_a_slot_is_ticked_once_and_missed_slots_are_skipped(schedulers: Schedulers) -> None:
    for later in (1, 15, 16, 100):
        schedulers.at(NOW + later)
    assert schedulers.ticks == [NOW + 15, NOW + 90]
    assert schedulers.looks == [NOW + 1, NOW + 15, NOW + 16, NOW + 100]


def test_a_slot_that_passed_while_something_else_was_looked_at_is_not_left_out(
    schedulers: Schedulers,
) -> None:
    schedulers.at(NOW + 1)
    schedulers.clock.now = NOW + 15.2  # nobody wakes the thread any more
    schedulers.scheduler.request()
    assert eventually(lambda: schedulers.ticks == [NOW + 15])
    assert schedulers.scheduler._left() > 0
    schedulers.clock.now = NOW + 30.1
    assert schedulers.scheduler._left() == 0.0


def test_the_delay_of_a_slot_is_stated(schedulers: Schedulers) -> None:
    begin = NOW // STEP * STEP
    schedulers.at(begin + STEP + 4.0)
    assert schedulers.ticks[-1] == begin + STEP and schedulers.scheduler.lateness == 4.0
    schedulers.at(begin + 2 * STEP)
    assert schedulers.scheduler.lateness == 0.0


def test_a_clock_that_is_set_back_is_followed(schedulers: Schedulers) -> None:
    for later in (15, -3600, -3580, -3565):
        schedulers.at(NOW + later)
    assert schedulers.ticks == [NOW + 15, NOW - 3585, NOW - 3570]


def test_a_clock_that_is_set_forward_brings_one_tick(schedulers: Schedulers) -> None:
    schedulers.at(NOW + 86_400)
    assert schedulers.ticks == [NOW + 86_400]


def test_rules_that_do_not_run_are_late_even_if_looks_between_succeed(schedulers: Schedulers) -> None:
    schedulers.fails = {"tick"}
    schedulers.at(NOW + 60)
    schedulers.at(NOW + 100)
    assert schedulers.scheduler.problems() == ["the rules were not evaluated for 100 s (expected every 15 s)"]
    schedulers.fails = set()
    schedulers.at(NOW + 120)
    assert eventually(lambda: schedulers.scheduler.problems() == [])


def test_a_heartbeat_that_fails_is_followed_by_the_next(schedulers: Schedulers) -> None:
    schedulers.fails = {"tick", "look"}
    schedulers.at(NOW + 15)
    schedulers.at(NOW + 30)
    assert schedulers.ticks == [NOW + 15, NOW + 30]


def test_what_happens_together_is_looked_at_together_and_what_comes_meanwhile_again() -> None:
    began, go_on = threading.Event(), threading.Event()
    looks: list[float] = []

    def look(at: float) -> None:
        looks.append(at)
        began.set()
        go_on.wait(30)

    scheduler = RuleScheduler(STEP, lambda at: None, look, Clock())
    scheduler.start()
    try:
        for _ in range(20):
            scheduler.request()
        assert began.wait(10)
        scheduler.request()
        go_on.set()
        assert eventually(lambda: len(looks) == 2)
    finally:
        scheduler.stop()
    assert len(looks) == 2


def test_slots_come_by_themselves_in_real_time() -> None:
    ticks = threading.Semaphore(0)
    scheduler = RuleScheduler(0.05, lambda at: ticks.release(), lambda at: None)
    scheduler.start()
    try:
        assert all(ticks.acquire(timeout=10) for _ in range(3))
    finally:
        scheduler.stop()


def test_a_stopped_heartbeat_reports_it_and_does_nothing_more() -> None:
    schedulers = Schedulers()
    schedulers.scheduler.start()
    schedulers.scheduler.stop()
    schedulers.scheduler.request()
    assert schedulers.scheduler.problems() == ["the rules do not run"]
    assert schedulers.ticks == schedulers.looks == []


def test_rules_wait_until_everything_is_prepared() -> None:
    item, left = Schedulers(), [OSError("away"), True, False]

    def prepare() -> bool:
        assert not item.looks
        step = left.pop(0)
        if isinstance(step, OSError):
            raise step
        return step

    item.clock.now = NOW
    item.scheduler.request()
    item.scheduler.start(prepare)
    assert eventually(lambda: bool(item.looks))
    assert not left
    item.scheduler.stop()


def test_a_preparation_ends_with_the_scheduler() -> None:
    item, begun = Schedulers(), threading.Event()
    item.scheduler.start(lambda: begun.set() or True)
    assert begun.wait(10)
    item.scheduler.stop()
    assert item.ticks == []
