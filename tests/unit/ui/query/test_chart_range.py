"""Bounds of a range that was dragged across a chart."""

import pytest

from ui.query import chart_range

WINDOW = (1000.0, 2000.0)


@pytest.mark.parametrize(
    ("chosen", "bounds"),
    [
        ((1200, 1500), (1200, 1500)),
        ((-5, 1500), (1000, 1500)),
        ((1200, 9e12), (1200, 2000)),
        ((1500, 1501), (1498, 1503)),
        ((1500, 1200), (1347.5, 1352.5)),
    ],
)
def test_a_range_stays_within_the_window_and_is_no_shorter_than_a_few_seconds(
    chosen: tuple[float, float], bounds: tuple[float, float]
) -> None:
    assert chart_range.bounds({"from": chosen[0], "to": chosen[1]}, WINDOW) == bounds
