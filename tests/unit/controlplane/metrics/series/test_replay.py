"""The past as stored events report it is the past as the grid saw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import EvaluationError, LimitError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import Series
from alerts.promql.syntax.parser import parse
from controlplane.metrics.series import replay
from controlplane.metrics.series.replay import replayable
from tests.drivers import BEGIN, Driver
from tests.stores import sqlite_harness
from tests.unit.controlplane.metrics.series.stories import (
    EVERY_METRIC,
    STEP,
    Story,
    busy_hour,
    by_labels,
    named,
)

PREFIX = "spark_streaming_"
#: One of each way in which a figure comes about.
SOME = [
    PREFIX + name
    for name in (
        "query_status",
        "query_info",
        "batch_duration_seconds",
        "source_lag_seconds",
        "source_catch_up_seconds",
        "state_rows",
        "batches_total",
        "input_rows_total",
        "source_input_rows_total",
        "query_starts_total",
        "query_failures_total",
    )
]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with sqlite_harness(tmp_path) as harness:
        yield Story(harness, tmp_path)


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Story]:
    """Its window is so short that most of the past is in the store alone."""
    with sqlite_harness(tmp_path) as harness:
        yield Story(harness, tmp_path, length=15)


def assert_same(story: Story, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
    held = story.service.grid.select(matchers, start, end)
    assert by_labels(story.service.replay.select(matchers, start, end)) == by_labels(held), (matchers, start)
    return held


def test_the_store_reports_every_figure_as_the_grid_had_it(story: Story) -> None:
    busy_hour(story, seed=1, events=80)
    names = sorted(filter(replayable, EVERY_METRIC))
    reported = [assert_same(story, named(name), BEGIN - 1.0, story.harness.now) for name in names]
    assert sum(map(bool, reported)) > 40


@pytest.mark.parametrize("seed", [2, 3])
def test_any_part_of_a_past_that_has_left_the_window_is_reported_the_same(short: Story, seed: int) -> None:
    busy_hour(short, seed)
    length = short.harness.now - BEGIN
    for begin, end in ((0.0, 0.3), (0.2, 0.5), (0.45, 0.46), (0.6, 1.0)):
        for name in SOME:
            assert_same(short, named(name), BEGIN + begin * length, BEGIN + end * length)


def test_a_driver_that_was_killed_counts_as_a_failure_from_the_start_of_the_next(story: Story) -> None:
    for number in range(4):
        driver, at = Driver(), BEGIN + 1 + 120.0 * number
        story.tell(at, driver.started("q", f"r{number}", at=at))
        story.tell(at + 20, driver.progress("q", f"r{number}", number, at=at + 20))
    story.go_to(BEGIN + 500)
    [failures] = assert_same(story, named(PREFIX + "query_failures_total"), BEGIN, story.harness.now)
    assert failures.labels["error_class"] == "lost"
    assert failures.values[-1] == 3
    assert_same(story, named(PREFIX + "query_starts_total"), BEGIN, story.harness.now)


def test_labels_narrow_what_is_read(story: Story) -> None:
    busy_hour(story, seed=4, events=40)
    start, end = BEGIN, BEGIN + 3600.0
    assert {s.labels["query"] for s in assert_same(story, named(SOME[2], query="q1"), start, end)} == {"q1"}
    assert {s.labels["team"] for s in assert_same(story, named(SOME[2], team="t0"), start, end)} == {"t0"}
    assert_same(story, named(SOME[0], status="running"), start, end)
    assert_same(story, [*named(SOME[0]), Matcher("query_id", "=~", "q[12]")], start, end)
    assert story.service.replay.select(named(SOME[0], app="nobody"), start, end) == []


def test_expressions_over_the_store_give_what_they_give_over_the_grid(short: Story) -> None:
    busy_hour(short, seed=5)
    for text in (
        "sum by (app) (rate(spark_streaming_input_rows_total[5m]))",
        "count by (status) (max_over_time(spark_streaming_query_status[2m]))",
        "spark_streaming_source_lag_rows + 1 > 0",
    ):
        node, end = parse(text), short.harness.now - 600.0
        ours, theirs = (
            evaluate_range(node, source, BEGIN + 300.0, end, 30.0)
            for source in (short.service.replay, short.service.grid)
        )
        assert by_labels(list(ours)) == by_labels(list(theirs)) and len(ours), text


def test_figures_that_only_polls_report_and_names_of_nothing_are_empty(story: Story) -> None:
    busy_hour(story, seed=4, events=40)
    for name in ("spark_streaming_batch_age_seconds", "controlplane_agents", "ALERTS", "spark_streaming_x"):
        assert list(story.service.replay.select(named(name), BEGIN, BEGIN + 900.0)) == [], name


def test_a_selector_without_a_name_is_refused_with_text(story: Story) -> None:
    with pytest.raises(EvaluationError, match="must name the metric"):
        evaluate(parse('{app="shop"}'), story.service.replay, BEGIN + 60.0)


def test_too_many_moments_are_refused_with_text(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    story.tell(BEGIN + 1, driver.started("q", "r", at=BEGIN + 1))
    story.go_to(BEGIN + 300)
    monkeypatch.setattr(replay, "MAX_POINTS", 10)
    with pytest.raises(LimitError, match=r"1 queries at 2\d times .* or a shorter range"):
        evaluate(parse("count_over_time(spark_streaming_batch_id[1h])"), story.service.replay, BEGIN + 300.0)
    assert len(story.service.replay.select(named(SOME[0]), BEGIN + 200, BEGIN + 300)) == 1


def test_nothing_is_read_for_a_time_before_the_first_event(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    story.tell(BEGIN + 100, driver.started("q", "r", at=BEGIN + 100))
    story.go_to(BEGIN + 300)
    assert len(story.service.replay.select(named(SOME[0]), BEGIN, BEGIN + 105)) == 1
    monkeypatch.setattr(story.service.replay, "_tracks", None)
    assert story.service.replay.select(named(SOME[0]), BEGIN, BEGIN + 90) == []


def test_too_many_reports_are_refused_but_for_what_needs_none(
    short: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, driver = short, Driver()
    story.tell(BEGIN + 1, *(driver.progress("q", "r", n, at=BEGIN + 1 + n / 10) for n in range(30)))
    story.go_to(BEGIN + 60)
    monkeypatch.setattr(replay, "MAX_REPORTS", 10)
    with pytest.raises(LimitError, match="30 reports"):
        evaluate(parse("spark_streaming_batch_id"), story.service.replay, BEGIN + 60.0)
    assert (
        evaluate(parse("spark_streaming_batches_total"), story.service.replay, BEGIN + 60.0)[0].value == 30.0
    )


def test_after_a_start_the_grid_is_filled_from_the_store(story: Story) -> None:
    busy_hour(story, seed=6, events=80)
    service = story.new_service()
    service.keep(dict.fromkeys(SOME, 1800.0))
    filled, missing = service.replay.fill(service.grid, story.harness.now, seconds=60.0)
    assert filled == missing == 84  # since the first query was seen
    for name in SOME:
        ours, theirs = (
            item.grid.select(named(name), story.harness.now - 1700.0, story.harness.now)
            for item in (service, story.service)
        )
        assert by_labels(ours) == by_labels(theirs), name


def test_filling_begins_with_the_newest_and_ends_when_its_time_is_over(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_hour(story, seed=6, events=40)
    monkeypatch.setattr(replay, "FILL_CHUNK_SLOTS", 4)
    service = story.new_service()
    assert service.replay.fill(service.grid, story.harness.now, seconds=0.0)[0] == 0
    ticks = iter([0.0, 1.0, 2.0, 99.0])
    monkeypatch.setattr(replay.time, "monotonic", lambda: next(ticks))
    filled, missing = service.replay.fill(service.grid, story.harness.now, seconds=10.0)
    assert filled == 8 < missing
    newest = story.harness.now // STEP * STEP
    assert service.grid.oldest(SOME[0]) == newest - 7 * STEP and service.grid.newest == newest
