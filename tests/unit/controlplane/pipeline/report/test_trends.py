"""Trends: reported where there is one, and only there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controlplane.pipeline.report.trends import DailyTrend, fit_trend, forecast_limit

DAYS = np.arange(30.0)


def test_a_straight_line_is_found_exactly() -> None:
    found = fit_trend(DAYS, 100 + 5 * DAYS)
    assert found == DailyTrend(5, 5, 5, 245, 30, True)
    assert found.direction == "up" and found.ahead(10) == (295, 295, 295)


def test_a_few_outlier_days_do_not_decide() -> None:
    values = 100 + 5 * DAYS
    values[[3, 17, 28]] = 10_000, 0, 9_000
    found = fit_trend(DAYS, values)
    assert found is not None and found.slope == pytest.approx(5, abs=0.5) and found.direction == "up"


def test_chance_alone_is_hardly_ever_called_a_trend() -> None:
    chance = np.random.default_rng(5)
    found = [fit_trend(DAYS, chance.lognormal(2, 0.4, 30)) for _ in range(1000)]
    assert sum(item is not None and item.direction != "none" for item in found) <= 5


def test_the_interval_covers_the_true_slope_about_as_often_as_it_states() -> None:
    chance = np.random.default_rng(6)
    found = [fit_trend(DAYS, 50 + 2 * DAYS + chance.normal(0, 5, 30)) for _ in range(500)]
    covered = sum(item is not None and item.low <= 2 <= item.high for item in found) / 500
    assert 0.92 <= covered <= 0.985


def test_a_slope_that_does_not_matter_is_no_trend() -> None:
    found = fit_trend(DAYS, 1000 + 0.5 * DAYS)
    assert found is not None and found.sure and found.direction == "none"


@pytest.mark.parametrize("values", [[], [1.0] * 6, [math.nan] * 30], ids=["none", "six-days", "unknown"])
def test_of_too_few_days_nothing_is_reported(values: list[float]) -> None:
    assert fit_trend(np.arange(float(len(values))), np.array(values)) is None


def test_days_without_a_figure_are_left_out() -> None:
    values = 5 * DAYS
    values[::3] = math.nan
    found = fit_trend(DAYS, values)
    assert found is not None and (found.slope, found.days, found.level) == (5, 20, 145)


def test_a_limit_is_reached_when_the_line_gets_there() -> None:
    found = DailyTrend(10, 5, 20, 100, 30, True)
    until = forecast_limit(found, 200)
    assert until is not None and (until.days, until.early, until.late) == (10, 5, 20)


def test_a_limit_that_is_passed_is_reached_now() -> None:
    until = forecast_limit(DailyTrend(10, 5, 20, 300, 30, True), 200)
    assert until is not None and until.days == 0


@pytest.mark.parametrize("slope", [-10.0, 0.0], ids=["falls", "stays"])
def test_what_does_not_grow_reaches_nothing(slope: float) -> None:
    assert forecast_limit(DailyTrend(slope, slope - 1, slope, 100, 30, True), 200) is None
    assert forecast_limit(None, 200) is None
