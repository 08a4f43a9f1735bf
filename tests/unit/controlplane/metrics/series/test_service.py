"""The space as the plane uses it: scrapes, rules that record, queries at any time, restarts."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import SeriesSource, Vector, series_of
from alerts.promql.syntax.parser import parse
from alerts.rules.loader import load
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.rules.pack import render
from controlplane.metrics.baselines import NAMES as BASELINES
from controlplane.metrics.series.grid import MAX_SERIES
from controlplane.metrics.series.service import FLEET_METRICS, OWN_METRICS
from controlplane.metrics.series.stored_samples import stored_names
from listeners.protocol.catalogue import AGENT, BY_NAME
from tests.drivers import BEGIN, Driver, real_reports
from tests.paths import ROOT
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


def test_metrics_that_are_read_together_take_one_round_of_the_fleet(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, read = story.harness.now + 3, (UP, "controlplane_agents")
    story.tell(at, Driver().terminated("q", "r", at=at))
    alone = [values(story.service.rules_source(at, live=True), name, at) for name in read]
    rounds, sampled = [], story.service._numbers

    def noted(*asked: Any) -> Any:
        rounds.append(asked[-1])
        return sampled(*asked)

    monkeypatch.setattr(story.service, "_numbers", noted)
    source = story.service.rules_source(at, live=True, together=frozenset((*read, "of_another_server")))
    assert [values(source, name, at) for name in read] == alone == [[0.0], [0.0]]
    assert rounds == [frozenset(read)]


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


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_recorded_value_that_is_not_finite_has_a_past(story: Story, value: float) -> None:
    service, now = story.service, story.harness.now
    service.keep({UP: 600.0, "odd": 600.0})
    service.record("g", [series_of({"__name__": "odd"}, {now: value})])
    story.go_to(now + 60)
    service.record("g", [])
    story.go_to(now + 120)
    source = service.rules_source(now + 120, live=True)
    assert values(source, "count_over_time(odd[2m])", now + 120) == [4.0]
    assert values(source, "absent_over_time(odd[30s] offset 1m)", now + 120) == []
    assert values(source, "odd offset 1m", now + 120) == [pytest.approx(value, nan_ok=True)]
    assert values(source, "odd", now + 120) == []
    assert values(source, f"max_over_time({UP}[1m])", now + 120) == [1.0]


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
    assert story.service.grid.names == {UP, *OWN_METRICS, *FLEET_METRICS}


def test_the_fleet_dashboard_reads_only_what_is_kept_for_its_range() -> None:
    """An hour of a thousand queries is more than a replay of their reports may compute."""
    board = (ROOT / "deploy" / "grafana" / "fleet.json").read_text(encoding="utf-8")
    exprs = " ".join(panel for panel in board.splitlines() if '"expr":' in panel)
    of_queries = set(re.findall(r"spark_streaming_\w+", exprs)) - {metric.name for metric in AGENT}
    assert of_queries == FLEET_METRICS.keys()
    ranged = re.findall(r"(spark_streaming_\w+)\{[^}]*\}\[1h\]", exprs)
    assert ranged and {FLEET_METRICS[name] for name in ranged} == {7500.0}, "the range and an hour before it"
    assert '"from": "now-1h"' in board


def test_the_default_limit_takes_ten_thousand_queries_with_their_drivers(tmp_path: Path) -> None:
    """One of each kind of query that Spark reported, each in a driver of its own, as the shipped rules hold them."""
    groups, mistakes = load(render())
    assert mistakes == ()
    with sqlite_harness(tmp_path) as harness:
        story, at = Story(harness, tmp_path), BEGIN + 1.0
        story.service.keep_for(groups)
        names = story.service.grid.names | stored_names(groups)
        story.service.keep(dict.fromkeys(names, 600.0))
        reports = real_reports()
        for number, reported in enumerate(reports):
            driver, known = Driver(), {"id": f"q{number}", "runId": f"r{number}"}
            facts = {
                "trigger": "processing_time",
                "triggerInterval": 10,
                "watermarkDelay": 60,
                "sink": "kafka",
            }
            listed = {**known, "message": "", "isTriggerActive": True, "lastTaskAt": at, "facts": facts}
            heartbeat = {
                "executors": 2,
                "driver": {"heapUsed": 1, "heapMax": 2},
                "callback": {"seconds_max": 0.1},
            }
            heartbeat |= {
                "hostLoad": {"load": 1, "cpus": 2, "memoryTotal": 2, "memoryAvailable": 1},
                "dropped": {"a": 1},
            }
            lines = (driver.progress(known["id"], known["runId"], n, at + n, **_of(reported)) for n in (0, 1))
            story.tell(at, driver.status(listed, at=at), driver.line("heartbeat", heartbeat, at), *lines)
        story.go_to(BEGIN + 60)
        own = len(evaluate(parse('{__name__=~"controlplane_.+"}'), story.service.grid, BEGIN + 60.0))
        of_queries = story.service.grid.series_count - own + 3 * len(names & BASELINES) * len(reports)
    assert of_queries > 20 * len(reports), "the rules read what was reported"
    assert own + 10_000 * of_queries / len(reports) <= MAX_SERIES


def _of(reported: dict[str, Any]) -> dict[str, Any]:
    """A report but for whose it is and when."""
    return {
        name: value for name, value in reported.items() if name not in ("id", "runId", "batchId", "timestamp")
    }
