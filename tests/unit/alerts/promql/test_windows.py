"""Windows over flat samples: their edges, what is done piece by piece, against the plain way of doing it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.promql import windows as module
from alerts.promql.functions.over_time import OVER_TIME
from alerts.promql.label_sets import Integers
from alerts.promql.series import STALE, Series
from alerts.promql.windows import Samples, Windows

Points = list[tuple[int, float]]


def series(points: Points, name: str = "x") -> Series:
    times = np.array([time for time, _ in points], float)
    return Series({"__name__": name}, times, np.array([value for _, value in points], float))


def windows_of(all_points: list[Points], until: list[int], length: int) -> Windows:
    samples = Samples.of_series([series(p, f"x{i}") for i, p in enumerate(all_points)], marks=False)
    ends: Integers = np.array(until, np.int64) * 1000
    return Windows.over(samples, ends, ends, length * 1000)


POINTS = st.lists(
    st.tuples(st.integers(-50, 50), st.floats(-1e6, 1e6)), max_size=12, unique_by=lambda p: p[0]
)
MANY = st.lists(POINTS.map(sorted), max_size=4)
UNTIL = st.lists(st.integers(-80, 80), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(MANY, UNTIL, st.integers(1, 60))
def test_a_window_holds_what_lies_in_it_open_at_the_left(
    many: list[Points], until: list[int], length: int
) -> None:
    windows = windows_of(many, until, length)
    for row, points in enumerate(many):
        for column, end in enumerate(until):
            begin, stop = windows.begin[row, column], windows.end[row, column]
            held = windows.samples.values[begin:stop].tolist()
            assert held == [value for time, value in points if end - length < time <= end]


@settings(max_examples=100, deadline=None)
@given(MANY, UNTIL, st.integers(1, 60), st.integers(1, 5))
def test_it_does_not_matter_how_many_are_gathered_at_once(
    many: list[Points], until: list[int], length: int, chunk: int
) -> None:
    windows = windows_of(many, until, length)
    whole = [OVER_TIME[name](windows) for name in ("stddev_over_time", "deriv", "sum_over_time")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        parts = [OVER_TIME[name](windows) for name in ("stddev_over_time", "deriv", "sum_over_time")]
    for (values, present), (other_values, other_present) in zip(whole, parts, strict=True):
        assert (present == other_present).all()
        assert np.array_equal(values[present], other_values[present], equal_nan=True)


@settings(max_examples=100, deadline=None)
@given(POINTS.map(sorted), st.integers(-80, 80), st.integers(1, 120))
def test_a_window_of_one_series_is_counted_as_one_would_by_hand(
    points: Points, end: int, length: int
) -> None:
    windows = windows_of([points], [end], length)
    held = [value for time, value in points if end - length < time <= end]
    pairs = list(pairwise(held))
    expected = {
        "sum_over_time": math.fsum(held),
        "max_over_time": max(held, default=0.0),
        "changes": sum(a != b for a, b in pairs),
        "resets": sum(b < a for a, b in pairs),
        "last_over_time": held[-1] if held else 0.0,
    }
    for name, value in expected.items():
        found, present = OVER_TIME[name](windows)
        assert bool(present[0, 0]) == bool(held)
        assert not held or math.isclose(found[0, 0], value, rel_tol=1e-9, abs_tol=1e-6), name


def test_marks_are_left_out_unless_they_are_asked_for() -> None:
    marked = [
        series([(0, 1.0), (1, float(STALE)), (2, math.nan), (3, 4.0)]),
        series([(0, float(STALE))], "y"),
    ]
    assert np.diff(Samples.of_series(marked, marks=False).bounds).tolist() == [3, 0]
    assert np.diff(Samples.of_series(marked, marks=True).bounds).tolist() == [4, 1]


def test_series_may_be_centuries_apart_and_whole_numbers() -> None:
    old = Series({"n": "1"}, np.array([-6_000_000_000]), np.array([1]))
    new = Series({"n": "2"}, np.array([6_000_000_000]), np.array([2]))
    samples = Samples.of_series([old, new] * 1000, marks=True)
    ends = np.array([-(10**15), 0, 10**15])
    counts = Windows.over(samples, ends, ends, 10**15).counts
    assert counts[:2].tolist() == [[0, 1, 0], [0, 0, 1]]
