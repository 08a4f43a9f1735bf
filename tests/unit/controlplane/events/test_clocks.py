"""Clocks of agents that are off, and what becomes of their times."""

from __future__ import annotations

import math

import pytest

from controlplane.events.clocks import MAX_CLOCKS, RECENT_OFFSETS, AgentClocks, corrected

NOW = 1_000_000.0


def test_a_clock_within_the_tolerance_is_taken_at_its_word() -> None:
    assert corrected(NOW - 5, 1.9, NOW) == NOW - 5


def test_a_clock_that_is_off_is_corrected_both_ways() -> None:
    assert corrected(NOW - 3605, 3600.0, NOW) == NOW - 5
    assert corrected(NOW + 3595, -3600.0, NOW) == NOW - 5


def test_nothing_was_received_in_the_future() -> None:
    assert corrected(NOW + 86400, None, NOW) == NOW
    assert corrected(NOW + 1, None, NOW) == NOW + 1


def test_nothing_was_received_before_1970() -> None:
    assert corrected(5.0, -3600.0, NOW) == 0.0


def test_the_smallest_recent_offset_counts_for_it_had_the_shortest_way() -> None:
    clocks = AgentClocks()
    for took in (0.9, 0.1, 0.5):
        offset = clocks.note(NOW, NOW - 100 - took).of("a")
    assert offset == pytest.approx(100.1)


def test_a_clock_that_was_set_right_is_believed_after_a_while() -> None:
    clocks = AgentClocks()
    clocks.note(NOW, NOW + 500).of("a")
    for n in range(RECENT_OFFSETS):
        offset = clocks.note(NOW, NOW - 0.1 - n / 1000).of("a")
    assert offset == pytest.approx(0.1)


def test_a_delay_does_not_pass_for_a_clock_that_is_behind() -> None:
    """The times of an agent's later events must not be earlier than those of its first ones."""
    clocks = AgentClocks()
    offsets = [clocks.note(NOW, NOW - took).of("a") for took in (43.0, 17.0, 58.0, 0.2)]
    assert offsets == [0.0] * 4


def test_a_clock_that_is_behind_by_less_than_a_delay_is_believed_after_a_while() -> None:
    clocks = AgentClocks()
    offsets = [clocks.note(NOW, NOW - 10.1).of("a") for _ in range(RECENT_OFFSETS)]
    assert offsets == [0.0] * (RECENT_OFFSETS - 1) + [pytest.approx(10.1)]


def test_a_clock_that_was_set_back_further_than_any_way_takes_is_believed_at_once() -> None:
    clocks = AgentClocks()
    clocks.note(NOW, NOW + 3600).of("a")
    clock = clocks.note(NOW, NOW - 0.1)
    assert [clock.of("a"), clock.of("a")] == [pytest.approx(0.1)] * 2


def test_one_slow_request_does_not_move_a_clock() -> None:
    clocks = AgentClocks()
    for took in (0.1, 20.0, 0.2, 20.0):
        offset = clocks.note(NOW, NOW - took).of("a")
    assert offset == 0.0


def test_a_heartbeat_was_received_when_it_came_less_the_time_it_waited_to_be_sent() -> None:
    clock = AgentClocks().note(NOW, NOW + 3600)  # the sender is an hour ahead
    assert clock.received(NOW + 3599, NOW) == NOW - 1
    assert clock.received(NOW + 1800, NOW) == NOW - 1800  # from a spool that was left behind
    assert clock.received(NOW + 9999, NOW) == NOW
    assert AgentClocks().note(NOW, None).received(NOW, NOW) is None


@pytest.mark.parametrize("sent_at", [None, math.nan, math.inf, -5.0, 0.0])
def test_a_time_of_sending_that_is_none_corrects_nothing(sent_at: float | None) -> None:
    assert AgentClocks().note(NOW, sent_at).of("a") is None


def test_the_memory_for_clocks_is_bounded() -> None:
    clocks = AgentClocks()
    for n in range(MAX_CLOCKS + 10):
        clocks.note(NOW, NOW - 1).of(f"agent {n}")
    assert len(clocks._recent) == MAX_CLOCKS
