"""The space as the plane uses it: scrapes, rules that record, queries at any time, restarts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import SeriesSource, Vector, series_of
from alerts.promql.syntax.parser import parse
from alerts.rules.model import Rule, RuleGroup, RuleKind
from listeners.protocol.catalogue import BY_NAME
from tests.drivers import BEGIN, Driver
from tests.stores import sqlite_harness
from tests.unit.controlplane.metrics.series.stories import Story, by_labels, named

UP, LAG = "spark_streaming_query_up", "spark_streaming_source_lag_rows"


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """One query with a batch every 20 s, four minutes long."""
    with sqlite_harness(tmp_path) as harness:
        story, driver = Story(harness, tmp_path), Driver()
        story.service.keep({UP: 600.0, "ALERTS": 600.0, "controlplane_agents": 600.0})
        for n in range(12):
            at = BEGIN + 1 + n * 20
            story.tell(at, driver.progress("q", "r", n, at=at))
        yield story


def values(source: SeriesSource, text: str, at: float) -> list[float]:
    found = evaluate(parse(text), source, at)
    assert isinstance(found, Vector)
    return [sample.value for sample in found]


def test_the_grid_holds_what_rules_read_and_nothing_else(story: Story) -> None:
    source, now = story.service.rules_source(story.harness.now, live=False), story.harness.now
    assert values(source, UP, now) == [1.0]
    assert values(source, "controlplane_agents", now) == [0.0]
    assert values(source, LAG, now) == []
    assert values(source, f"count_over_time({UP}[2m])", now) == [8.0]
    figures = story.service.figures()
    assert figures.series == 2 and figures.bytes > 0 and figures.refused == 0 and figures.seconds > 0


def test_between_two_slots_a_rule_sees_what_has_just_occurred(story: Story) -> None:
    at = story.harness.now + 3
    story.tell(at, Driver().terminated("q", "r", at=at))
    assert values(story.service.rules_source(at, live=False), UP, at) == [1.0]
    assert values(story.service.rules_source(at, live=True), UP, at) == [0.0]


def test_what_a_group_recorded_is_scraped_until_it_records_again(story: Story) -> None:
    service, now = story.service, story.harness.now
    service.record("g", [series_of({"__name__": "ALERTS", "alertname": "A"}, {now: 1.0})])
    service.record("h", [series_of({"__name__": "ALERTS", "alertname": "B"}, {now: 1.0})])
    story.go_to(now + 30)
    assert len(values(service.rules_source(now + 30, live=True), "ALERTS", now + 30)) == 2
    service.record("g", [])
    service.forget("h")
    story.go_to(now + 60)
    assert values(service.rules_source(now + 60, live=False), "ALERTS", now + 60) == []
    assert values(service.rules_source(now + 60, live=False), "count(ALERTS)", now + 30) == [2.0]


def test_any_metric_can_be_asked_for_at_any_time(story: Story) -> None:
    now = story.harness.now + 4.0
    source = story.service.source(now)
    assert values(source, LAG, now) == [2.0], "not kept: of this moment"
    assert values(source, LAG, now - 120.0) == [2.0], "not kept: of the past"
    assert values(source, "spark_streaming_batches_total", now - 120.0) == [6.0]
    assert values(source, f"sum({UP})", now) == [1.0], "kept"
    assert values(source, 'count({app="shop"})', now)[0] > 20, "without a name"
    assert values(source, "rate(spark_streaming_batches_total[2m]) * 20", now) == [pytest.approx(1.0, 0.3)]
    (series,) = evaluate_range(parse("spark_streaming_batch_id"), source, BEGIN, now, 20.0)
    assert series.values.tolist() == [float(n) for n in range(11)], "one batch behind, at every 20 s"


def test_everything_of_this_moment_is_reported_with_names_of_the_catalogue(story: Story) -> None:
    reported = story.service.live(story.harness.now)
    assert {name for name, _, _ in reported} > {UP, LAG, "controlplane_queries"}
    assert all(name in BY_NAME and "__name__" not in labels for name, labels, _ in reported)


def test_a_restart_knows_what_was_saved_and_what_was_missed(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.service.save()
    driver, at = Driver(), story.harness.now + 60
    story.tell(at, driver.progress("q", "r", 99, at=at))
    before = by_labels(story.service.grid.select(named(UP), BEGIN, at))
    service = story.new_service()
    service.keep({UP: 600.0, "ALERTS": 600.0, "controlplane_agents": 600.0})
    with caplog.at_level(logging.INFO):
        service.load()
    assert by_labels(service.grid.select(named(UP), BEGIN, at)) == before
    assert "missing slots filled from events" in caplog.text
    assert service.figures().series == 2


def test_a_disk_that_takes_no_snapshot_is_a_line_in_the_log(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    (story.folder / "series.npz.new").mkdir()
    story.service.save()
    assert "cannot save the series" in caplog.text


def test_rules_that_read_more_than_is_kept_are_named_in_the_log(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    rules = [Rule(RuleKind.ALERT, n, text, parse(text)) for n, text in (("A", UP), ("B", '{app="x"}'))]
    story.service.keep_for([RuleGroup("g", tuple(rules))])
    assert [record.getMessage() for record in caplog.records] == [
        'rule B reads more history than the server keeps in memory: {app="x"}'
    ]
    assert story.service.grid.names == {UP}
