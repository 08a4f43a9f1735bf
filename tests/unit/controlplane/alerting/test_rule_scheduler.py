"""Slots are kept or left out, never made up for; hurry, clocks that are set, and failing work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from controlplane.alerting.rule_scheduler import RuleScheduler
from tests.acceptance.live import eventually
from tests.unit.controlplane.alerting.parts import NOW, Clock

STEP = 15.0


class Beats:
    """A beat with a clock by hand that notes what it was asked to do. `fails`: what fails."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ticks: list[float] = []
        self.looks: list[float] = []
        self.fails: set[str] = set()
        self.beat = RuleScheduler(
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
        self.beat.hurry()
        assert eventually(lambda: len(self.looks) > seen, 10)


@pytest.fixture
def beats() -> Iterator[Beats]:
    one = Beats()
    one.beat.start()
    yield one
    one.beat.stop()


def test_a_slot_is_ticked_once_and_what_was_missed_is_left_out(beats: Beats) -> None:
    for later in (1, 15, 16, 100):
        beats.at(NOW + later)
    assert beats.ticks == [NOW + 15, NOW + 90]
    assert beats.looks == [NOW + 1, NOW + 15, NOW + 16, NOW + 100]


def test_a_slot_that_passed_while_something_else_was_looked_at_is_not_left_out(beats: Beats) -> None:
    beats.at(NOW + 1)
    beats.clock.now = NOW + 15.2  # nobody wakes the thread any more
    beats.beat.hurry()
    assert eventually(lambda: beats.ticks == [NOW + 15], 10)
    assert beats.beat._left() > 0
    beats.clock.now = NOW + 30.1
    assert beats.beat._left() == 0.0


def test_a_clock_that_is_set_back_is_followed(beats: Beats) -> None:
    for later in (15, -3600, -3580, -3565):
        beats.at(NOW + later)
    assert beats.ticks == [NOW + 15, NOW - 3585, NOW - 3570]


def test_a_clock_that_is_set_forward_brings_one_tick(beats: Beats) -> None:
    beats.at(NOW + 86_400)
    assert beats.ticks == [NOW + 86_400]


def test_rules_that_do_not_run_are_late_even_if_looks_between_succeed(beats: Beats) -> None:
    beats.fails = {"tick"}
    beats.at(NOW + 60)
    beats.at(NOW + 100)
    assert beats.beat.late() == ["the rules were not evaluated for 100 s (every 15 s)"]
    beats.fails = set()
    beats.at(NOW + 120)
    assert eventually(lambda: beats.beat.late() == [])


def test_a_beat_that_fails_is_followed_by_the_next(beats: Beats) -> None:
    beats.fails = {"tick", "look"}
    beats.at(NOW + 15)
    beats.at(NOW + 30)
    assert beats.ticks == [NOW + 15, NOW + 30]


def test_what_happens_together_is_looked_at_together_and_what_comes_meanwhile_again() -> None:
    began, go_on = threading.Event(), threading.Event()
    looks: list[float] = []

    def look(at: float) -> None:
        looks.append(at)
        began.set()
        go_on.wait(30)

    beat = RuleScheduler(STEP, lambda at: None, look, Clock())
    beat.start()
    try:
        for _ in range(20):
            beat.hurry()
        assert began.wait(10)
        beat.hurry()
        go_on.set()
        assert eventually(lambda: len(looks) == 2, 10)
    finally:
        beat.stop()
    assert len(looks) == 2


def test_slots_come_by_themselves_in_real_time() -> None:
    ticks = threading.Semaphore(0)
    beat = RuleScheduler(0.05, lambda at: ticks.release(), lambda at: None)
    beat.start()
    try:
        assert all(ticks.acquire(timeout=10) for _ in range(3))
    finally:
        beat.stop()


def test_a_beat_that_is_stopped_says_so_and_does_nothing_more() -> None:
    beats = Beats()
    beats.beat.start()
    beats.beat.stop()
    beats.beat.hurry()
    assert beats.beat.late() == ["the rules do not run"]
    assert beats.ticks == beats.looks == []
