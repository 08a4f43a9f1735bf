"""Go's time layouts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from alerts.templates.times import format_span, format_time, in_zone

MOMENT = datetime(2023, 3, 4, 17, 6, 7, 120_000, UTC)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("2006-01-02 15:04:05", "2023-03-04 17:06:07"),
        ("Monday, January _2 2006 at 3:4:5pm", "Saturday, March  4 2023 at 5:6:7pm"),
        ("Mon Jan 2 06 03:04PM", "Sat Mar 4 23 05:06PM"),
        ("15:04:05.000 .999", "17:06:07.120 .12"),
        ("Z07:00 -0700 -07:00 -07 MST", "Z +0000 +00:00 +00 UTC"),
    ],
)
def test_a_layout_is_read_as_go_reads_it(layout: str, text: str) -> None:
    assert format_time(MOMENT, layout) == text


def test_a_zone_changes_the_hour() -> None:
    assert format_time(in_zone("Europe/Paris", MOMENT), "15:04 Z07:00 MST") == "18:06 +01:00 CET"
    with pytest.raises(ValueError, match="unknown time zone"):
        in_zone("Nowhere", MOMENT)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (59.5, "59.5s"), (3725, "1h2m5s"), (-90, "-1m30s"), (0.00002, "20µs")],
)
def test_a_span_is_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == text
