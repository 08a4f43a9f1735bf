"""The age of the oldest unread row, from the heads of a source."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from controlplane.pipeline.rollup import lag_estimation

NONE = math.nan


def aged(heads: Sequence[float], lags: Sequence[float], runs: Sequence[int] | None = None) -> list[float]:
    """Of one source with a batch every 10 s."""
    count = len(heads)
    at, batch = np.arange(count) * 10_000_000, np.arange(count)
    run = np.array(runs or [1] * count)
    return lag_estimation.estimate_lag_seconds(
        at, run, batch, np.zeros(count, np.int64), np.array(heads, float), np.array(lags, float)
    ).tolist()


CASES = {
    "nothing waits": ([100, 200], [0, 0], [0, 0]),
    "the first batch of a run knows no pace": ([100, 200], [50, 50], [NONE, 5]),
    "rows behind over the pace of the head": ([0, 100, 200, 300], [0, 50, 100, 600], [0, 5, 10, 60]),
    "a head that stands still": ([100, 100, 100], [30, 30, 30], [NONE, 10, 20]),
    "a head that went back": ([100, 20, 120], [0, 10, 20], [0, NONE, 20]),
    "a head that is not told": ([0, NONE, 200], [0, 10, 20], [0, NONE, 2]),
    "lag that is not told": ([0, 100], [0, NONE], [0, NONE]),
}


@pytest.mark.parametrize("case", CASES)
def test_an_age_is_estimated_from_the_heads(case: str) -> None:
    heads, lags, expected = CASES[case]
    np.testing.assert_allclose(aged(heads, lags), expected)


def test_another_run_reports_nothing_of_the_pace() -> None:
    np.testing.assert_allclose(aged([0, 100, 200, 300], [10] * 4, [1, 1, 2, 2]), [NONE, 1, NONE, 1])


def test_the_pace_is_that_of_the_last_ten_batches() -> None:
    heads = [0.0] * 5 + [100.0 * n for n in range(12)]
    assert aged(heads, [50.0] * len(heads))[-1] == pytest.approx(5.0)


def test_rows_that_come_twice_change_nothing() -> None:
    at = np.array([0, 10_000_000, 10_000_000, 20_000_000])
    ones, zero = np.ones(4, np.int64), np.zeros(4, np.int64)
    found = lag_estimation.estimate_lag_seconds(
        at, ones, at, zero, np.array([0, 100, 100, 200.0]), np.array([0, 50, 50, 50.0])
    )
    assert sorted(age for age in found if not math.isnan(age)) == [0, 5, 5]
