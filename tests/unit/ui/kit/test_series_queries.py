"""Range queries of the charts: expressions, names of the lines, gaps."""

import pytest

from tests.ui import factories, fake_series
from tests.ui.factories import NOW
from ui.kit import charts, series_queries
from ui.kit.series_queries import PANELS, ChartPanel

BY_KEY = {panel.key: panel for panel in PANELS}
WINDOW = (NOW - 900, NOW)


def answer(*lines: tuple[dict[str, str], list[tuple[float, str]]]) -> dict[str, object]:
    result = [{"metric": metric, "values": [list(pair) for pair in values]} for metric, values in lines]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_one_metric_is_selected_by_the_query_and_several_by_their_names() -> None:
    query = {"query_id": 'a"b\\', "app": "orders"}
    assert (
        series_queries.expression(BY_KEY["lag_seconds"], query)
        == r'spark_streaming_source_lag_seconds{query_id="a\"b\\"}'
    )
    heap = series_queries.expression(BY_KEY["heap"], query)
    first = 'label_replace(spark_streaming_driver_heap_bytes{app="orders"}, "line", "heap", "", "")'
    assert heap.startswith(f"{first} or label_replace(")


def test_every_expression_is_valid_promql() -> None:
    from alerts.promql.syntax.parser import parse

    for panel in PANELS:
        assert parse(series_queries.expression(panel, {"query_id": 'x"\n\\', "app": "ä{}"}))


def test_every_metric_is_in_the_catalogue() -> None:
    from listeners.protocol import catalogue

    known = set(catalogue.BY_NAME) | {metric.name for metric in catalogue.STATE_METRICS.values()}
    queried = {f"spark_streaming_{name}" for panel in PANELS for name in panel.metrics}
    assert queried - known == set()


def test_a_query_without_event_time_or_rocksdb_has_no_such_chart() -> None:
    keys = [panel.key for panel in series_queries.panels({"operators": [{"customMetrics": {"x": 1}}]})]
    assert keys == ["lag_seconds", "executors", "heap"]
    assert len(series_queries.panels(factories.detail())) == len(PANELS)
    pressed = {"agent_info": {"host": {"memory_pressure": 0.0}}}
    assert "throttling" in [panel.key for panel in series_queries.panels(pressed)]


def test_two_metrics_of_a_chart_never_share_a_line() -> None:
    for panel in PANELS:
        assert len({series_queries.metric_label(name) for name in panel.metrics}) == len(panel.metrics)


def test_lines_are_named_by_their_label_and_their_metric() -> None:
    panel = ChartPanel("k", "Title", ("rocksdb_get_seconds", "rocksdb_put_seconds"), by="operator")
    made = series_queries.table(
        fake_series.matrix(series_queries.expression(panel, {}), *WINDOW, 15.0), panel, WINDOW, 15.0
    )
    assert list(made.columns) == ["time", "get dedupe", "put dedupe"]
    lag = BY_KEY["lag_seconds"]
    same = answer(({"source": "K"}, [(NOW, "1")]), ({"source": "K"}, [(NOW, "2")]))
    assert len(set(series_queries.table(same, lag, WINDOW, 15.0).columns)) == 3


def test_a_gap_in_a_line_is_a_missing_value() -> None:
    values = [(NOW - 300, "1"), (NOW - 285, "2"), (NOW - 30, "3"), (NOW - 15, "4")]
    made = series_queries.table(answer(({}, values)), BY_KEY["watermark_lag"], WINDOW, 15.0)
    assert made.iloc[:, 1].isna().to_list() == [False, False, True, False, False]


def test_a_value_that_is_not_a_number_is_missing() -> None:
    made = series_queries.table(answer(({}, [(NOW - 15, "NaN"), (NOW, "7")])), BY_KEY["heap"], WINDOW, 15.0)
    assert made.iloc[:, 1].to_list() == [7.0]


@pytest.mark.parametrize("empty", [None, {}, {"data": None}, {"data": {"result": []}}])
def test_no_answer_is_an_empty_table(empty: dict[str, object] | None) -> None:
    assert series_queries.table(empty, BY_KEY["heap"], WINDOW, 15.0).empty


def test_the_step_is_on_the_servers_grid_and_bounds_the_points() -> None:
    for seconds in (60, 900, 3600, 86_400, 31 * 86_400):
        step = series_queries.step(seconds)
        assert step % series_queries.MIN_STEP_SECONDS == 0
        assert seconds / step <= series_queries.MAX_POINTS * 1.05


def test_points_of_long_ranges_are_at_the_same_times_of_each_day() -> None:
    hours = {days: series_queries.step(days * 86_400) / 3600 for days in (7, 30, 31, 90, 180, 365, 366, 3650)}
    assert hours == {7: 1680 / 3600, 30: 2, 31: 2, 90: 6, 180: 12, 365: 24, 366: 24, 3650: 240}
    assert series_queries.coarse_step(7 * 86_400) is None


def test_points_an_hour_apart_are_medians_of_that_hour() -> None:
    query = {"query_id": "q", "app": "a"}
    lag = series_queries.expression(BY_KEY["lag_seconds"], query, 7200.0)
    assert lag == 'quantile_over_time(0.5, spark_streaming_source_lag_seconds{query_id="q"}[7200s])'
    several = series_queries.expression(BY_KEY["heap"], query, 86_400.0)
    assert several.count("quantile_over_time(0.5, spark_streaming_driver_heap") == 2


def test_the_unit_comes_from_the_metrics_name() -> None:
    panel = BY_KEY["heap"]
    made = series_queries.table(
        fake_series.matrix(series_queries.expression(panel, {}), *WINDOW, 15.0), panel, WINDOW, 15.0
    )
    option = charts.ranges(made, WINDOW, [], series_queries.unit(panel.metrics[0]))
    assert option["yAxis"]["axisLabel"]["formatter"] == "{value} GB" or "G" in str(option["yAxis"])
    assert [line["name"] for line in option["series"]] == list(made.columns[1:])


def test_an_instant_answer_of_one_element_is_its_value() -> None:
    assert series_queries.single_value(fake_series.vector(NOW, 48.0)) == 48.0
    assert series_queries.single_value(fake_series.vector(NOW, None)) is None
    assert series_queries.single_value(None) is None


def test_a_long_range_shows_its_resolution() -> None:
    assert (
        series_queries.resolution_note(None)
        == series_queries.resolution_note({"progress": [], "resolution": None})
        == ""
    )
    assert "an hour or more" in series_queries.resolution_note({"resolution": 3600.0})
    assert "a minute or more" in series_queries.resolution_note({"resolution": 60.0})
    assert "6 hours or more" in series_queries.resolution_note({"resolution": 6 * 3600.0})
    assert "a day or more" in series_queries.resolution_note({"resolution": 86_400.0})
    assert "2 days or more" in series_queries.resolution_note({"resolution": 2 * 86_400.0})


def test_coverage_notes_are_passed_on_unless_the_resolution_note_covers_them() -> None:
    assert series_queries.coverage_notes({"notes": ["no data before\nthe store's first batch"]}) == [
        "no data before the store's first batch"
    ]
    assert series_queries.coverage_notes({"resolution": 60.0, "notes": ["medians"]}) == []
