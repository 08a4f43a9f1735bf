"""Durations as Prometheus writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1d", 86_400.0),
        ("2w", 1_209_600.0),
        ("1y", 31_536_000.0),
        ("250ms", 0.25),
        ("1h1ms", 3600.001),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "-5m", "1m1h", "1h1h", "1.5h", "h", "5M", "٣m", "99999999y", "1" * 5000 + "d"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86_400, "1d"),
        (604_800, "1w"),
        (0.0001, "0s"),
    ],
)
def test_a_duration_is_written_as_prometheus_writes_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**12))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
