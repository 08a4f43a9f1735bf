"""Sums that cancel are done again exactly; others stay as they are."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.promql.sums import exact_where_cancelled, mean


def summed(terms: list[float]) -> float:
    values = np.array(terms)
    with np.errstate(all="ignore"):
        return float(
            exact_where_cancelled(
                np.array([values.sum()]), np.array([np.abs(values).sum()]), lambda _: values
            )[0]
        )


def test_what_cancels_leaves_the_small_terms() -> None:
    assert summed([1e100, 1.0, -1e100, 1.0]) == 2.0


def test_infinities_and_nan_are_no_case_for_an_exact_sum() -> None:
    assert summed([math.inf, 1.0]) == math.inf
    assert math.isnan(summed([math.inf, -math.inf]))
    assert math.isnan(summed([math.nan, 1.0]))
    assert summed([1.7e308, 1.7e308]) == math.inf


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=50))
def test_a_sum_is_right_to_a_few_digits(terms: list[float]) -> None:
    assert math.isclose(summed(terms), math.fsum(terms), rel_tol=1e-11)


def test_a_mean_is_finite_where_its_sum_is_not() -> None:
    values = np.array([1.7e308, 1.7e308])
    with np.errstate(over="ignore"):
        total = np.array([values.sum()])
    assert mean(total, np.array([2]), lambda: np.array([(values / 2).sum()]))[0] == 1.7e308
