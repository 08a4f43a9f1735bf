"""Tests of the formatting of figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.health.formatting import clock, number, rows, span

NOW = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.74, "0.7 s"),
        (9.94, "9.9 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (3599.6, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3600, "3 d 4 h"),
        (-5, "0 s"),
        (math.nan, "an unknown time"),
        (math.inf, "an unknown time"),
    ],
)
def test_a_duration_shows_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 rows"),
        (1, "1 row"),
        (12_400, "12,400 rows"),
        (1.2e9, "1,200,000,000 rows"),
        (math.nan, "an unknown number of rows"),
    ],
)
def test_row_counts_have_thousands_separators(count: float, text: str) -> None:
    assert rows(count) == text


def test_a_time_of_the_same_day_has_no_date() -> None:
    assert clock(NOW - 10, NOW) == "11:06 UTC"
    assert clock(NOW - 86_400, NOW) == "2026-11-17 11:06 UTC"
    assert clock(math.nan, NOW) == "an unknown time"


@given(st.floats())
def test_every_float_has_a_text(value: float) -> None:
    assert span(value) and rows(value) and number(value) and clock(value, NOW)
