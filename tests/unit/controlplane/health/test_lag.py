"""Lag in seconds from recorded heads, and the trend over the last samples."""

from __future__ import annotations

import pytest

from controlplane.health import lag
from controlplane.health.thresholds import DEFAULTS
from tests.unit.controlplane.situations import NOW, batches, run, sample, source, view, without_latest_offset


def heads_at(*points: tuple[float, float], end: float) -> tuple:
    """Samples whose heads were recorded at these (seconds ago, head), the last of which ended at `end`."""
    return tuple(
        sample(n, NOW - ago + 1, [source({"t/0": 0}, {"t/0": end}, {"t/0": head})])
        for n, (ago, head) in enumerate(points)
    )


@pytest.mark.parametrize(
    ("points", "end", "seconds"),
    [
        ([(100, 1000), (50, 2000)], 2000, 0.0),
        ([(100, 1000), (50, 2000)], 2500, 0.0),
        ([(100, 1000), (50, 2000)], 1500, 75.0),
        ([(100, 1000), (50, 2000)], 1000, 100.0),
        ([(100, 1000), (90, 1000), (50, 2000)], 1000, 90.0),
        ([(100, 1000), (50, 2000)], 500, 125.0),
        ([(100, 1000), (50, 1000)], 500, 100.0),
        ([(100, 1000)], 500, None),
        ([(100, 9000), (60, 100), (50, 200)], 150, 55.0),
        ([(100, 9000), (50, 200)], 150, None),
    ],
    ids=[
        "all is read",
        "more is read than the head tells",
        "between two heads",
        "exactly at a head",
        "the head stood still: the last moment counts",
        "before the oldest head: at the mean pace",
        "the head never moved: the oldest record is the least it can be",
        "one point is none",
        "a topic made anew: only the new heads count",
        "a topic made anew, one head so far",
    ],
)
def test_lag_in_seconds_is_the_age_of_the_first_unread_row(points, end, seconds) -> None:
    found = lag.lag_seconds(view(progress=heads_at(*points, end=end)), NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_lag_in_seconds_goes_on_growing_while_nothing_is_received() -> None:
    behind = view(progress=heads_at((100, 1000), (50, 2000), end=1500))
    assert lag.lag_seconds(behind, NOW + 60) == pytest.approx(135)


def test_a_long_rest_before_a_burst_is_no_lag() -> None:
    """Ten hours of silence, then a thousand rows at once: the oldest of them is seconds old, not hours."""
    before = sample(1, NOW - 36_000, [source({"t/0": 0}, {"t/0": 500}, {"t/0": 500})])
    burst = sample(2, NOW - 5, [source({"t/0": 500}, {"t/0": 600}, {"t/0": 1500})])
    resting = view(progress=(before, burst), idle_at=NOW - 12)
    assert lag.lag_seconds(resting, NOW) < 13


def test_a_query_that_rests_has_read_everything() -> None:
    behind = heads_at((100, 1000), (50, 2000), end=1500)
    assert lag.lag_seconds(view(progress=behind, idle_at=NOW - 1), NOW) == 0.0


def test_lag_is_not_known_where_no_source_reports_its_head() -> None:
    assert lag.lag_seconds(view(progress=without_latest_offset(12)), NOW) is None
    assert lag.lag_seconds(view(progress=()), NOW) is None


def test_the_source_that_is_furthest_behind_counts() -> None:
    slow = source({"a/0": 0}, {"a/0": 10}, {"a/0": 20})
    files = without_latest_offset(1)[0].sources[0]
    old = sample(1, NOW - 100, [files, source({"a/0": 0}, {"a/0": 5}, {"a/0": 10})])
    new = sample(2, NOW - 50, [files, slow])
    assert lag.lag_seconds(view(progress=(old, new)), NOW) == pytest.approx(101)


def test_heads_of_earlier_runs_count_as_a_restart_changes_nothing_in_the_source() -> None:
    old = sample(1, NOW - 100, [source({"t/0": 0}, {"t/0": 100}, {"t/0": 200})], run_id="run-0")
    new = sample(2, NOW - 50, [source({"t/0": 100}, {"t/0": 250}, {"t/0": 300})])
    assert lag.lag_seconds(view(run=run(), progress=(old, new)), NOW) == pytest.approx(76)


def test_the_window_is_ten_samples_and_thirty_seconds() -> None:
    slow = lag.trend_window(batches([0] * 40, every=10), DEFAULTS)
    quick = lag.trend_window(batches([0] * 100, every=1), DEFAULTS)
    assert (len(slow), slow[-1].at - slow[0].at) == (10, 90)
    assert (len(quick), quick[-1].at - quick[0].at) == (10, 30)
    assert lag.trend_window(batches([0] * 9), DEFAULTS) == []


@pytest.mark.parametrize(
    ("lags", "rows", "trend"),
    [
        ([100] * 10, 0, lag.LagTrend.STALLED),
        ([10] * 10, 0, lag.LagTrend.FINE),
        ([100] * 9 + [5], 0, lag.LagTrend.FINE),
        (range(100, 1100, 100), 0, lag.LagTrend.STALLED),
        (range(100, 1100, 100), 10, lag.LagTrend.GROWING),
        (range(1100, 100, -100), 10, lag.LagTrend.FINE),
        ([100, 200, 300, 400, 500, 600, 700, 800, 700, 900], 10, lag.LagTrend.FINE),
        ([0] * 9 + [5000], 10, lag.LagTrend.FINE),
        ([0, 0, 0, 0, 20, 30, 40, 50, 60, 70], 10, lag.LagTrend.FINE),
        ([0, 0, 10, 20, 30, 40, 50, 60, 70, 80], 10, lag.LagTrend.GROWING),
        ([30] * 10, 10, lag.LagTrend.GROWING),
        ([20] * 10, 10, lag.LagTrend.FINE),
    ],
)
def test_burrows_rules(lags, rows, trend) -> None:
    found = [lag.trend(trail, DEFAULTS) for trail in lag.lag_windows(batches(lags, rows=rows), DEFAULTS)]
    assert (found or [lag.LagTrend.FINE]) == [trend]


def test_allowed_lag_is_two_median_batches_and_at_least_ten_rows() -> None:
    allowed = [next(lag.lag_windows(batches([11] * 10, rows=rows), DEFAULTS)).allowed for rows in (0, 1, 500)]
    assert allowed == [10, 10, 1000]


def test_partitions_are_looked_at_only_where_they_lag() -> None:
    lags = [{"o/0": 5, "o/1": 500, "o/2": 0}] * 10
    assert [trail.part for trail in lag.lag_windows(batches(lags), DEFAULTS)] == [None, "o/1"]


def test_a_source_that_reports_no_head_throughout_the_window_has_no_trend() -> None:
    mixed = (*without_latest_offset(3, last_at=NOW - 200), *batches([100] * 9, rows=0))
    assert list(lag.lag_windows(mixed, DEFAULTS)) == []


def test_catching_up_takes_as_long_as_the_lag_shrank_lately() -> None:
    assert lag.catch_up_seconds([(0, 1000), (10, 800)]) == 40
    assert lag.catch_up_seconds([(0, 1000), (10, 1000)]) is None
    assert lag.catch_up_seconds([(0, 1000)]) is None


def test_arrival_is_the_pace_of_the_head_over_the_partitions_known_before_and_after() -> None:
    before = sample(1, NOW - 20, [source({}, {}, {"t/0": 100, "t/1": 5})])
    after = sample(2, NOW - 10, [source({}, {}, {"t/0": 150, "t/2": 9})])
    assert lag.arrival_rate([before, after], 0) == 5
    assert lag.arrival_rate([after], 0) is None
    assert lag.arrival_rate(without_latest_offset(2), 0) is None


def test_a_topic_made_anew_reports_no_arrival() -> None:
    before = sample(1, NOW - 20, [source({}, {}, {"t/0": 100})])
    after = sample(2, NOW - 10, [source({}, {}, {"t/0": 3})])
    assert lag.arrival_rate([before, after], 0) is None
    assert lag.total_arrival_rate([before, after], frozenset({before.sources[0].name})) is None
