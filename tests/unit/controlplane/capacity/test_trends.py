"""Slopes that outliers do not move, and growth that is claimed only where it is clear."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.capacity import trends

pointss = st.lists(st.tuples(st.floats(), st.floats()), max_size=20)


def series(sizes: list[float], every: float = 30.0) -> list[tuple[float, float]]:
    return [(1e9 + i * every, size) for i, size in enumerate(sizes)]


@given(st.floats(-1e6, 1e6), st.floats(-1e3, 1e3), st.integers(3, 150))
@settings(max_examples=30)
def test_a_line_has_its_slope(start: float, each: float, count: int) -> None:
    found = trends.slope([(float(i), start + each * i) for i in range(count)])
    assert found.value == pytest.approx(each, abs=1e-6)
    assert found.low <= found.value <= found.high


@given(pointss)
def test_no_points_make_it_fail(points: list[tuple[float, float]]) -> None:
    for found in (trends.slope(points), trends.growth(points)):
        assert found is None or math.isfinite(found.low + found.value + found.high)


def test_outliers_do_not_move_a_slope() -> None:
    sizes = [100.0 * i for i in range(40)]
    sizes[7], sizes[20], sizes[33] = 1e9, 0.0, -1e9
    assert trends.slope(series(sizes, 1.0)).value == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("count", [0, 1, trends.MIN_POINTS - 1])
def test_too_few_points_show_no_growth(count: int) -> None:
    assert trends.growth(series([100.0 * i for i in range(count)])) is None


def test_growth_in_too_short_a_time_is_none() -> None:
    assert trends.growth(series([100.0 * i for i in range(60)], every=1.0)) is None


@pytest.mark.parametrize(
    "sizes",
    [
        [1000.0] * 60,
        [1000.0 - i for i in range(60)],
        [float(i % 20) for i in range(60)],
        [float(i % 9) for i in range(60)],
        [float(min(i, 20)) for i in range(60)],
        [0.0] * 40 + [float(i) for i in range(20)],
    ],
    ids=[
        "constant",
        "falling",
        "evicted",
        "evicted often",
        "filled and then constant",
        "grows only at the end",
    ],
)
def test_what_does_not_grow_all_the_time_has_no_growth(sizes: list[float]) -> None:
    assert trends.growth(series(sizes)) is None


def test_noisy_growth_is_within_its_interval() -> None:
    """Growth of 10 a second with noise of a tenth of it: nearly always claimed, with the truth in the interval."""
    within, claimed = 0, 0
    for seed in range(60):
        rng = random.Random(seed)
        found = trends.growth(series([300.0 * i + rng.gauss(0, 400) for i in range(60)]))
        claimed += found is not None
        within += found is not None and found.low <= 10 <= found.high
    assert claimed >= 57
    assert within >= 0.95 * claimed


def test_a_random_walk_is_rarely_called_growth() -> None:
    claimed = 0
    for seed in range(200):
        rng, size, sizes = random.Random(seed), 0.0, []
        for _ in range(60):
            size += rng.gauss(0, 1)
            sizes.append(size)
        claimed += trends.growth(series(sizes)) is not None
    assert claimed <= 20  # of 200; of a thousand 51; by its slope alone nearly half
