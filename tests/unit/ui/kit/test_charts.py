"""Chart options: plain data that Streamlit accepts, small numbers, one time axis."""

import json

import pandas as pd
import pytest

from tests.ui import factories
from tests.ui.factories import NOW
from ui.kit import charts, frames

WINDOW = (NOW - 3600, NOW)
MARK = charts.ChartMark(NOW - 60, "#8b93a1")


def _frame(**overrides: object) -> object:
    points = factories.series(count=20)["progress"]
    return frames.progress([{**point, **overrides} for point in points])


def _all(frame: object) -> list[charts.Option]:
    return [
        charts.rates(frame, WINDOW, []),
        charts.backlog(frame, WINDOW, [MARK]),
        charts.durations(frame, WINDOW, [], 10.0),
        charts.state(frame, WINDOW, []),
    ]


def test_everything_but_the_table_is_json() -> None:
    for option in _all(_frame()):
        assert json.dumps({key: value for key, value in option.items() if key != "dataset"}, allow_nan=False)


def test_all_charts_share_one_time_axis() -> None:
    axes = {json.dumps(option["xAxis"]) for option in _all(_frame())}
    assert axes == {json.dumps({"type": "time", "min": int(WINDOW[0] * 1000), "max": int(WINDOW[1] * 1000)})}


def test_every_series_has_its_column() -> None:
    for option in _all(_frame()):
        columns = set(option["dataset"]["source"].columns)
        assert {series["encode"]["y"] for series in option["series"]} <= columns


def test_streamlit_takes_the_options() -> None:
    from streamlit.elements.echarts_chart import _normalize_spec

    for option in _all(_frame()) + _all(frames.progress([])):
        normal, tables = _normalize_spec(option)
        assert normal["dataset"]["source"]
        assert len(tables) == 1


def test_values_are_scaled_and_the_axis_shows_the_prefix() -> None:
    option = charts.rates(_frame(input_rows_per_second=4_200_000.0), WINDOW, [])
    assert option["dataset"]["source"]["input rate"].max() == pytest.approx(4.2)
    assert option["yAxis"]["axisLabel"]["formatter"] == "{value}M"


def test_the_arrival_rate_is_drawn_only_if_a_latest_offset_is_reported() -> None:
    unknown = charts.rates(_frame(arrival_rows_per_second=None), WINDOW, [])
    assert [series["name"] for series in unknown["series"]] == ["input rate", "processing rate"]
    known = charts.rates(_frame(arrival_rows_per_second=9000.0), WINDOW, [])
    assert known["series"][0]["name"] == "arrival rate"


def test_phases_that_never_took_time_are_left_out() -> None:
    option = charts.durations(_frame(phases_ms={"addBatch": 400, "getBatch": 0}), WINDOW, [], 10.0)
    assert [series["name"] for series in option["series"]] == ["process the batch", "other"]
    assert [series["encode"]["tooltip"] for series in option["series"]] == [
        ["addBatch"],
        ["other"],
    ]  # Spark's name
    assert {series["stack"] for series in option["series"]} == {"phases"}


def test_the_axis_includes_the_trigger_line_when_batches_come_near_it() -> None:
    option = charts.durations(_frame(batch_duration_seconds=8.0), WINDOW, [], 10.0)
    assert option["series"][0]["markLine"]["data"] == [{"yAxis": 10.0}]
    assert (option["yAxis"]["max"], option["yAxis"]["interval"]) == (12.5, 2.5)


def test_short_batches_fill_the_chart_and_the_trigger_line_stays_above_it() -> None:
    option = charts.durations(_frame(), WINDOW, [], 10.0)
    assert option["series"][0]["markLine"]["data"] == [{"yAxis": 10_000.0}]
    assert "max" not in option["yAxis"]
    assert option["yAxis"]["axisLabel"]["formatter"] == "{value} ms"


def test_without_a_trigger_interval_there_is_no_line() -> None:
    option = charts.durations(_frame(), WINDOW, [], None)
    assert "markLine" not in option["series"][0]


def test_marks_are_drawn_beside_the_trigger_line() -> None:
    option = charts.durations(_frame(), WINDOW, [MARK, charts.ChartMark(NOW - 30, "#e5484d", "dotted")], 10.0)
    marks = option["series"][0]["markLine"]["data"]
    assert [mark.get("xAxis") for mark in marks] == [None, int((NOW - 60) * 1000), int((NOW - 30) * 1000)]
    assert [mark["lineStyle"]["color"] for mark in marks[1:]] == ["#8b93a1", "#e5484d"]


def test_a_time_has_the_same_place_in_each_chart() -> None:
    grids = [option["grid"] for option in _all(_frame())]
    assert {grid["left"] for grid in grids} == {charts.MARGINS["left"]}
    assert [grid["right"] for grid in grids] == [
        *[charts.MARGINS["right"]] * 3,
        charts.STATE_MARGINS["right"],
    ]
    assert {grid["outerBoundsMode"] for grid in grids} == {"none"}


def test_a_single_point_is_drawn_as_a_symbol() -> None:
    """A line without symbols does not show a value between two gaps: the chart would be empty axes."""
    times = pd.to_datetime([NOW, NOW + 15, NOW + 30, NOW + 45], unit="s", utc=True)
    frame = pd.DataFrame({"time": times, "gap": [1.0, None, 2.0, 3.0], "line": [1.0, 2.0, None, None]})
    option = charts.ranges(frame, WINDOW, [], "rows")
    assert [series["showSymbol"] for series in option["series"]] == [True, False]
