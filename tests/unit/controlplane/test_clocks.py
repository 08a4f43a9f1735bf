"""Clocks of agents that are off, and what becomes of their times."""

from __future__ import annotations

import math

import pytest

from controlplane.clocks import MAX_CLOCKS, RECENT_OFFSETS, Clocks, corrected

NOW = 1_000_000.0


def test_a_clock_within_the_tolerance_is_taken_at_its_word() -> None:
    assert corrected(NOW - 5, 1.9, NOW) == NOW - 5


def test_a_clock_that_is_off_is_corrected_both_ways() -> None:
    assert corrected(NOW - 3605, 3600.0, NOW) == NOW - 5
    assert corrected(NOW + 3595, -3600.0, NOW) == NOW - 5


def test_nothing_was_heard_in_the_future() -> None:
    assert corrected(NOW + 86400, None, NOW) == NOW
    assert corrected(NOW + 1, None, NOW) == NOW + 1


def test_nothing_was_heard_before_1970() -> None:
    assert corrected(5.0, -3600.0, NOW) == 0.0


def test_the_smallest_recent_offset_counts_for_it_had_the_shortest_way() -> None:
    clocks = Clocks()
    for took in (0.9, 0.1, 0.5):
        offset = clocks.note(NOW, NOW - 100 - took).of("a")
    assert offset == pytest.approx(100.1)


def test_a_clock_that_was_set_right_is_believed_after_a_while() -> None:
    clocks = Clocks()
    clocks.note(NOW, NOW + 500).of("a")
    for n in range(RECENT_OFFSETS):
        offset = clocks.note(NOW, NOW - 0.1 - n / 1000).of("a")
    assert offset == pytest.approx(0.1)


@pytest.mark.parametrize("sent_at", [None, math.nan, math.inf, -5.0, 0.0])
def test_a_time_of_sending_that_is_none_corrects_nothing(sent_at: float | None) -> None:
    assert Clocks().note(NOW, sent_at).of("a") is None


def test_the_memory_for_clocks_is_bounded() -> None:
    clocks = Clocks()
    for n in range(MAX_CLOCKS + 10):
        clocks.note(NOW, NOW - 1).of(f"agent {n}")
    assert len(clocks._recent) == MAX_CLOCKS
