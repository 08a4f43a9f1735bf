"""Evaluation of a group: rules in order, each seeing what came before it, errors kept to their rule."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from alerts.engine import GroupResult, evaluate_group, missed_evaluations, slot
from alerts.promql.series import SeriesInMemory, series_of
from alerts.rules.loader import load
from alerts.rules.model import RuleGroup
from alerts.state import AlertState


def group(text: str) -> RuleGroup:
    groups, mistakes = load(text)
    assert mistakes == ()
    return groups[0]


def source(*series: tuple[Mapping[str, str], Mapping[float, float]]) -> SeriesInMemory:
    return SeriesInMemory([series_of(labels, samples) for labels, samples in series])


def lag(query: str, *values: float) -> tuple[dict[str, str], dict[float, float]]:
    return {"__name__": "lag", "query": query}, {15.0 * n: value for n, value in enumerate(values)}


def reported(result: GroupResult) -> list[tuple[str, str]]:
    return [(change.alert.labels["query"], str(change.after)) for change in result.transitions]


def test_an_alert_is_raised_from_the_answer_of_its_expression() -> None:
    rules = group("groups: [{name: g, rules: [{alert: Lag, expr: lag > 5}]}]")
    series = source(lag("a", 1, 9), lag("b", 9, 1))
    first = evaluate_group(rules, series, (), 0.0)
    second = evaluate_group(rules, series, first.states, 15.0)
    assert reported(first) == [("b", "firing")]
    assert sorted(reported(second)) == [("a", "firing"), ("b", "resolved")]
    assert second.at == 15.0
    assert second.errors == {}


def test_a_rule_sees_what_rules_before_it_recorded_and_raised() -> None:
    rules = group(
        """
groups:
  - name: g
    rules:
      - record: lag:max
        expr: max(lag)
        labels: {of: all}
      - alert: Lag
        expr: lag:max{of="all"} > 5
        for: 1m
      - alert: Waits
        expr: ALERTS{alertname="Lag", alertstate="pending"}
      - record: since
        expr: time() - ALERTS_FOR_STATE{alertname="Lag"}
"""
    )
    result = evaluate_group(rules, source(lag("a", 7, 9)), (), 15.0)
    recorded = {
        item.labels["__name__"]: item for item in result.recorded if item.labels.get("alertname") != "Waits"
    }
    assert recorded["lag:max"].values.tolist() == [9.0]
    assert recorded["ALERTS"].labels["alertstate"] == "pending"
    assert recorded["since"].values.tolist() == [0.0]
    assert [change.alert.rule for change in result.transitions] == ["Lag", "Waits"]


def test_what_is_recorded_now_takes_the_place_of_what_the_source_has() -> None:
    rules = group(
        "groups: [{name: g, rules: [{record: x, expr: lag * 2}, {record: y, expr: 'sum_over_time(x[1m])'}]}]"
    )
    old = ({"__name__": "x", "query": "a"}, {0.0: 1.0, 15.0: 100.0})
    result = evaluate_group(rules, source(lag("a", 3, 4), old), (), 15.0)
    assert [item.values.tolist() for item in result.recorded] == [[8.0], [9.0]]


def test_one_rule_that_fails_stops_no_other_and_keeps_its_alerts() -> None:
    rules = group(
        "groups: [{name: g, rules: [{alert: Lag, expr: lag > 5, labels: {query: same}},"
        " {alert: Fine, expr: lag > 5}]}]"
    )
    first = evaluate_group(rules, source(lag("a", 9)), (), 0.0)
    second = evaluate_group(rules, source(lag("a", 9, 9), lag("b", 9, 9)), first.states, 15.0)
    assert "the same labels" in second.errors["Lag"]
    assert second.states[0] == first.states[0]
    assert reported(second) == [("b", "firing")]


def test_more_alerts_than_the_groups_limit_are_an_error_and_clear_the_rule() -> None:
    rules = group("groups: [{name: g, limit: 1, rules: [{alert: Lag, expr: lag > 5}]}]")
    first = evaluate_group(rules, source(lag("a", 9)), (), 0.0)
    second = evaluate_group(rules, source(lag("a", 9, 9), lag("b", 9, 9)), first.states, 15.0)
    assert second.errors == {"Lag": "exceeded limit of 1 with 2 alerts"}
    assert reported(second) == [("a", "resolved")]


def test_two_recorded_series_with_the_same_labels_are_an_error() -> None:
    rules = group("groups: [{name: g, rules: [{record: x, expr: lag, labels: {query: same}}]}]")
    result = evaluate_group(rules, source(lag("a", 1), lag("b", 1)), (), 0.0)
    assert "same labels" in result.errors["x"]
    assert result.recorded == ()


@pytest.mark.parametrize(("expr", "count"), [("1", 1), ("vector(1)", 1), ("lag > 100", 0)])
def test_a_number_is_an_answer_without_labels(expr: str, count: int) -> None:
    rules = group(f"groups: [{{name: g, rules: [{{alert: Always, expr: '{expr}'}}]}}]")
    result = evaluate_group(rules, source(lag("a", 1)), (), 0.0)
    assert len(result.states[0]) == count


def test_an_expression_that_gives_a_range_is_an_error_of_its_rule() -> None:
    rules = group("groups: [{name: g, rules: [{alert: A, expr: 'lag[1m]'}]}]")
    assert "instant vector" in evaluate_group(rules, source(lag("a", 1)), (), 0.0).errors["A"]


def test_a_query_offset_looks_at_the_past() -> None:
    rules = group("groups: [{name: g, query_offset: 15s, rules: [{alert: Lag, expr: lag > 5}]}]")
    result = evaluate_group(rules, source(lag("a", 9, 1)), (), 15.0)
    assert reported(result) == [("a", "firing")]
    assert result.transitions[0].at == 15.0


def test_a_short_look_back_lets_a_series_end() -> None:
    rules = group("groups: [{name: g, rules: [{alert: Lag, expr: lag > 5}]}]")
    assert reported(evaluate_group(rules, source(lag("a", 9)), (), 60.0)) == [("a", "firing")]
    assert reported(evaluate_group(rules, source(lag("a", 9)), (), 60.0, lookback=20.0)) == []


def test_an_alert_that_fires_is_seen_until_it_resolves() -> None:
    rules = group("groups: [{name: g, rules: [{alert: Lag, expr: lag > 5}]}]")
    states: tuple[Mapping[str, object], ...] = ()
    seen = []
    for at in (0.0, 15.0, 30.0):
        result = evaluate_group(rules, source(lag("a", 9, 9, 1)), states, at)  # type: ignore[arg-type]
        states = result.states
        seen.append(
            [item.labels["alertstate"] for item in result.recorded if item.labels["__name__"] == "ALERTS"]
        )
    assert seen == [["firing"], ["firing"], []]
    assert [state.state for state in result.states[0].values()] == [AlertState.RESOLVED]


def test_time_is_measured_with_the_given_clock() -> None:
    ticks = iter(range(100))
    rules = group("groups: [{name: g, rules: [{record: a, expr: '1'}, {record: b, expr: '1'}]}]")
    result = evaluate_group(rules, source(), (), 0.0, clock=lambda: float(next(ticks)))
    assert [rule.seconds for rule in result.rules] == [1.0, 1.0]
    assert result.seconds == 5.0


def test_groups_are_due_at_multiples_of_their_interval() -> None:
    named, unnamed = RuleGroup("a", (), interval=30.0), RuleGroup("b", ())
    assert slot(named, 61.0, 15.0) == 60.0
    assert slot(unnamed, 61.0, 15.0) == 60.0
    assert slot(unnamed, 59.9, 15.0) == 45.0
    assert missed_evaluations(named, None, 60.0, 15.0) == 0
    assert missed_evaluations(named, 30.0, 60.0, 15.0) == 0
    assert missed_evaluations(named, 30.0, 150.0, 15.0) == 3


def test_a_template_may_query_what_rules_before_it_recorded() -> None:
    rules = group(
        """
groups:
  - name: g
    rules:
      - {record: total, expr: sum(lag)}
      - alert: Lag
        expr: lag > 5
        annotations: {summary: 'of {{ query "total" | first | value }}, {{ query "up + on () up" | len }}'}
        labels: {of: '{{ with query "total" }}{{ . | first | value }}{{ end }}'}
"""
    )
    result = evaluate_group(rules, source(lag("a", 7), ({"__name__": "up", "i": "1"}, {0.0: 1.0})), (), 0.0)
    (alert,) = result.states[1].values()
    assert alert.labels["of"] == "7"
    assert alert.annotations == {"summary": "of 7, 1"}
    assert [item.labels["__name__"] for item in result.recorded if "total" in item.labels["__name__"]]
