"""What the grid keeps is what rules read, and no longer than they read it."""

from __future__ import annotations

import pytest

from alerts.promql.syntax.parser import parse
from alerts.rules.loader import load
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.rules.pack import render
from controlplane.metrics.series.selection import MAX_KEPT_SECONDS, retention_for

MORE = 300.0 + 15.0  # the look-back and a step


def group(*texts: str, query_offset: float = 0.0) -> RuleGroup:
    rules = tuple(Rule(RuleKind.ALERT, f"A{n}", text, parse(text)) for n, text in enumerate(texts))
    return RuleGroup("g", rules, query_offset=query_offset)


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("x > 1", 0.0),
        ("rate(x[10m]) > 1", 600.0),
        ("x offset 1h", 3600.0),
        ("x offset -1h", 0.0),
        ("sum(rate(x[10m] offset 1h))", 4200.0),
        ("max_over_time(rate(x[1m])[30m:1m] offset 2m)", 60.0 + 1800.0 + 120.0),
        ("x > x offset 5m and deriv(x[3m]) > 0", 300.0),
        ('{__name__="x", team="data"}', 0.0),
    ],
)
def test_a_metric_is_kept_for_the_longest_range_of_an_expression(text: str, reach: float) -> None:
    assert retention_for([group(text)], 15.0) == ({"x": reach + MORE}, ())


def test_the_farthest_of_all_rules_counts_and_a_group_that_looks_late_adds_its_delay() -> None:
    groups = [group("x", "rate(x[5m])", "y"), group("x offset 1m", query_offset=600.0)]
    assert retention_for(groups, 15.0).seconds == {"x": 660.0 + MORE, "y": MORE}


@pytest.mark.parametrize("text", ['{team="data"}', '{__name__=~"x.*"}', "y @ 1795150800", "y[3d]"])
def test_a_rule_that_reads_what_the_grid_never_holds_whole_is_named(text: str) -> None:
    found = retention_for([group(text, "z")], 15.0)
    assert [rule.name for rule in found.beyond] == ["A0"]
    assert all(seconds <= MAX_KEPT_SECONDS + MORE for seconds in found.seconds.values())


def test_every_rule_of_the_pack_that_ships_reads_the_grid_alone() -> None:
    groups, _ = load(render())
    found = retention_for(groups, 15.0)
    assert found.beyond == ()
    assert "spark_streaming_query_status" in found.seconds


def test_what_templates_query_is_kept_too() -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: x, annotations: {s: '{{ query `y offset 1m` | len }}'}}]}]"
    groups, _ = load(text)
    assert retention_for(groups, 15.0).seconds == {"x": MORE, "y": 60.0 + MORE}
