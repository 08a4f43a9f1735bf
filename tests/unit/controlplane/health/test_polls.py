"""The times of an agent's lists: bounded, and the same in any order of arrival."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from controlplane.health.polls import MAX_POLLS, PERIOD_SECONDS, first_after, with_poll

times = st.lists(st.floats(0, 1000), max_size=80)


@given(times.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_polls_do_not_depend_on_the_order_of_arrival(orders: tuple[list[float], list[float]]) -> None:
    first, second = (reduce(with_poll, order, ()) for order in orders)
    assert first == second == tuple(sorted(first))
    assert len(first) <= MAX_POLLS


def test_frequent_polls_do_not_displace_older_ones() -> None:
    """A driver that starts a query every second is polled every second."""
    polls = reduce(with_poll, [number / 2 for number in range(600)], ())
    assert polls == tuple(number * PERIOD_SECONDS for number in range(30))


def test_first_poll_after_a_time() -> None:
    assert first_after((10.0, 20.0, 30.0), 10.0) == 20.0
    assert first_after((10.0,), 10.0) is None
