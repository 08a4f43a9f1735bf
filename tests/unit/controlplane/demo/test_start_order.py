"""Drivers start one after another."""

from __future__ import annotations

from pathlib import Path

from controlplane.demo.scenarios import Driver
from controlplane.demo.start_order import MAX_WAIT_SECONDS, StartOrder

FIRST, SECOND, THIRD = (Driver(f"app-{n}", Path(f"{n}.py"), (f"query-{n}",)) for n in range(3))


def test_the_first_starts_at_once_and_the_next_when_it_shows_figures() -> None:
    turns = StartOrder([FIRST, SECOND])
    assert turns.next(0.0, set()) == FIRST
    assert turns.next(5.0, set()) is None
    assert turns.next(9.0, {"app-0"}) == SECOND
    assert turns.over
    assert turns.next(10.0, {"app-0", "app-1"}) is None


def test_one_that_shows_nothing_keeps_the_others_waiting_for_a_while_only() -> None:
    turns = StartOrder([FIRST, SECOND, THIRD])
    turns.next(1.0, set())
    assert turns.next(1.0 + MAX_WAIT_SECONDS - 0.1, set()) is None
    assert turns.next(1.0 + MAX_WAIT_SECONDS, set()) == SECOND
    assert turns.next(1.5 + MAX_WAIT_SECONDS, {"app-0"}) is None
    assert turns.next(1.0 + 2 * MAX_WAIT_SECONDS, set()) == THIRD
