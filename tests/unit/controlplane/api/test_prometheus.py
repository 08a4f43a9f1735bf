"""Answers in Prometheus' words: numbers as Go prints them, values of each kind, rules, alerts, metadata, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.engine import evaluate_group
from alerts.promql.series import Matrix, Sample, Scalar, SeriesInMemory, String, Vector, series_of
from alerts.promql.syntax.parser import parse
from alerts.rules.loader import load
from alerts.rules.model import RuleKind
from alerts.state import AlertState
from controlplane.alerting.views import GroupView, RuleView
from controlplane.api import prometheus
from controlplane.api.prometheus import PrometheusError, RulesWanted
from controlplane.errors import BadRequest, BodyTooLarge, StoreUnavailable
from listeners.protocol.catalogue import BY_NAME

Json = dict[str, Any]


def data(body: bytes) -> Any:
    document = json.loads(body)
    assert document["status"] == "success"
    return document["data"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (2.5, "2.5"),
        (-17.0, "-17"),
        (0.1 + 0.2, "0.30000000000000004"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (0.000001, "0.000001"),
        (1e-7, "1e-07"),
        (1.5e-300, "1.5e-300"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (-1.2345e20, "-123450000000000000000"),
        (1e21, "1e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_a_sample_is_printed_as_go_prints_it(value: float, text: str) -> None:
    assert prometheus.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0e+00"),
        (1.0, "1e+00"),
        (1234.5, "1.2345e+03"),
        (-0.00025, "-2.5e-04"),
        (1e100, "1e+100"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
    ],
)
def test_an_alert_s_value_is_printed_with_an_exponent(value: float, text: str) -> None:
    assert prometheus.scientific(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0"),
        (1795159016.0, "1795159016"),
        (1795159016.5, "1795159016.500"),
        (1.0004, "1"),
        (-0.25, "-0.250"),
    ],
)
def test_a_time_has_a_fraction_of_three_digits_or_none(seconds: float, text: str) -> None:
    assert prometheus.moment(seconds) == text


def test_each_kind_of_value_has_its_shape() -> None:
    vector = Vector([Sample({"z": "1", "__name__": "m"}, 1.0)])
    matrix = Matrix([series_of({"a": "2"}, {1.5: 2.0, 3.0: float("inf")}), series_of({"a": "1"}, {1.5: 0.0})])
    assert data(prometheus.result(Scalar(2.0), 7.0)) == {"resultType": "scalar", "result": [7, "2"]}
    assert data(prometheus.result(String('a "b"'), 7.0)) == {"resultType": "string", "result": [7, 'a "b"']}
    assert data(prometheus.result(vector, 7.25)) == {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "m", "z": "1"}, "value": [7.25, "1"]}],
    }
    assert data(prometheus.result(matrix, 9.0)) == {
        "resultType": "matrix",
        "result": [
            {"metric": {"a": "1"}, "values": [[1.5, "0"]]},
            {"metric": {"a": "2"}, "values": [[1.5, "2"], [3, "+Inf"]]},
        ],
    }
    assert data(prometheus.result(Vector(), 7.0)) == {"resultType": "vector", "result": []}
    assert data(prometheus.result(Matrix(), 7.0)) == {"resultType": "matrix", "result": []}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats() | st.integers(-3, 3).map(float), st.sampled_from([0.0, 0.25])), min_size=1)
)
def test_a_matrix_prints_every_value_as_an_instant_does(found: list[tuple[float, float]]) -> None:
    series = [series_of({"n": f"{n:05}"}, {shift: value, 1.0: 2.0}) for n, (value, shift) in enumerate(found)]
    body = data(prometheus.result(Matrix(series), 1.0))["result"]
    assert [item["values"] for item in body] == [
        [[shift, prometheus.number(value)], [1, "2"]] for value, shift in found
    ]


def test_labels_of_any_text_come_back_whole() -> None:
    strange = {"a": 'quote " and \\ and \n', "b": "åäö \u2603", "c": "half \ud800"}
    body = prometheus.result(Vector([Sample(strange, 1.0)]), 1.0)
    assert data(body)["result"][0]["metric"] == strange


def test_a_truncated_answer_warns_and_nothing_else_does() -> None:
    vector = Vector([Sample({"a": str(n)}, 1.0) for n in range(3)])
    cut = json.loads(prometheus.result(vector, 1.0, limit=2))
    assert (len(cut["data"]["result"]), cut["warnings"]) == (2, [prometheus.CUT])
    assert "warnings" not in json.loads(prometheus.result(vector, 1.0, limit=3))
    assert "warnings" not in json.loads(prometheus.result(Scalar(1.0), 1.0, limit=1))
    listed = json.loads(prometheus.listing(["a", "b"], 1, ["slow"]))
    assert listed == {"status": "success", "data": ["a"], "warnings": ["slow", prometheus.CUT]}


# -- rules and alerts ------------------------------------------------------------------------------

RULES = """
groups:
  - name: first
    interval: 30s
    limit: 9
    labels: {team: data}
    rules:
      - {record: "r:one", expr: "vector(1)", labels: {kind: sum}}
      - alert: Fires
        expr: vector(1234.5) > 0
        labels: {severity: page}
        annotations: {summary: "v {{ $value }}"}
      - {alert: Waits, expr: vector(1) > 0, for: 1h, keep_firing_for: 5m}
      - {alert: Quiet, expr: vector(0) > 1}
      - {alert: Bad, expr: 'absent(x) * on() {__name__=~"d."}'}
  - name: second
    rules:
      - {record: "r:two", expr: "vector(2)"}
"""
NOW = 1795159016.0


def views(evaluated: bool = True) -> list[GroupView]:
    """The groups as AlertQueries returns them after an evaluation at NOW."""
    groups, mistakes = load(RULES, "rules.yml")
    assert mistakes == ()
    return [_viewed(group) if evaluated else GroupView(group, 15.0, rules=_unseen(group)) for group in groups]


def _unseen(group: Any) -> tuple[RuleView, ...]:
    return tuple(RuleView(rule) for rule in group.rules)


def _viewed(group: Any) -> GroupView:
    twice = [series_of({"__name__": name}, {NOW: 1.0}) for name in ("d1", "d2")]
    result = evaluate_group(group, SeriesInMemory(twice), (), NOW)
    rules = tuple(RuleView(r.rule, tuple(r.alerts.values()), r.error, NOW, r.seconds) for r in result.rules)
    return GroupView(group, group.interval or 15.0, NOW, result.seconds, 0, rules)


def shown(**wanted: Any) -> Json:
    found: Json = data(prometheus.rules(views(), RulesWanted(**wanted)))
    return found


def names(found: Json) -> list[str]:
    return [rule["name"] for group in found["groups"] for rule in group["rules"]]


def test_a_group_has_the_result_of_its_evaluation() -> None:
    first, second = shown()["groups"]
    assert (first["name"], first["file"], first["interval"], first["limit"]) == ("first", "rules.yml", 30, 9)
    assert first["lastEvaluation"] == "2026-11-20T07:16:56.000Z"
    assert first["evaluationTime"] > 0
    assert (second["interval"], second["limit"]) == (15, 0)


def test_a_rule_shows_its_state_its_alerts_and_its_error() -> None:
    record, fires, waits, quiet, bad = shown()["groups"][0]["rules"]
    assert (record["type"], record["health"], record["labels"]) == (
        "recording",
        "ok",
        {"team": "data", "kind": "sum"},
    )
    assert "state" not in record
    assert [rule["state"] for rule in (fires, waits, quiet, bad)] == [
        "firing",
        "pending",
        "inactive",
        "inactive",
    ]
    assert fires["alerts"] == [
        {
            "labels": {"alertname": "Fires", "severity": "page", "team": "data"},
            "annotations": {"summary": "v 1234.5"},
            "state": "firing",
            "activeAt": "2026-11-20T07:16:56.000Z",
            "value": "1.2345e+03",
        }
    ]
    assert (waits["duration"], waits["keepFiringFor"], waits["query"]) == (3600, 300, "vector(1) > 0")
    assert bad["health"] == "err"
    assert bad["lastError"]
    assert "lastError" not in quiet


def test_a_rule_that_was_not_evaluated_yet_is_neither_well_nor_ill() -> None:
    found = data(prometheus.rules(views(evaluated=False), RulesWanted()))
    assert {rule["health"] for group in found["groups"] for rule in group["rules"]} == {"unknown"}
    assert {group["lastEvaluation"] for group in found["groups"]} == {prometheus.NEVER}


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({"kind": RuleKind.RECORD}, ["r:one", "r:two"]),
        ({"kind": RuleKind.ALERT}, ["Fires", "Waits", "Quiet", "Bad"]),
        ({"names": ("Fires", "r:two", "nothing")}, ["Fires", "r:two"]),
        ({"groups": ("second",)}, ["r:two"]),
        ({"files": ("other.yml",)}, []),
        ({"files": ("rules.yml",), "names": ("Quiet",)}, ["Quiet"]),
        (
            {"labels": (parse('{severity="page"}').matchers, parse('{kind="sum"}').matchers)},
            ["r:one", "Fires"],
        ),  # type: ignore[union-attr]
    ],
)
def test_rules_can_be_picked_and_groups_without_any_are_left_out(wanted: Json, left: list[str]) -> None:
    found = shown(**wanted)
    assert names(found) == left
    assert all(group["rules"] for group in found["groups"])


def test_alerts_can_be_left_out() -> None:
    assert all("alerts" not in rule for rule in shown(with_alerts=False)["groups"][0]["rules"])


def test_groups_come_in_pages_until_there_is_none_left() -> None:
    first = shown(page=1)
    second = shown(page=1, token=first["groupNextToken"])
    assert [group["name"] for group in (*first["groups"], *second["groups"])] == ["first", "second"]
    assert "groupNextToken" not in second
    with pytest.raises(PrometheusError, match="were rule groups changed"):
        shown(page=1, token="of yesterday")


def test_alerts_that_have_ended_are_not_reported_and_those_kept_firing_say_since_when() -> None:
    fires = views()[0].rules[1].alerts[0]
    ended = replace(fires, state=AlertState.RESOLVED, resolved_at=NOW)
    kept = replace(fires, gone_since=NOW - 60)
    body = data(prometheus.alerts([fires, ended, kept]))["alerts"]
    assert [alert.get("keepFiringSince") for alert in body] == [None, "2026-11-20T07:15:56.000Z"]


# -- the rest --------------------------------------------------------------------------------------


def test_the_metadata_are_those_of_the_catalogue() -> None:
    body = data(prometheus.metadata())
    assert set(BY_NAME) <= set(body)
    assert body["spark_streaming_state_rows"] == [
        {"type": "gauge", "help": BY_NAME["spark_streaming_state_rows"].help, "unit": "rows"}
    ]
    assert list(data(prometheus.metadata("spark_streaming_query_up"))) == ["spark_streaming_query_up"]
    assert [len(data(prometheus.metadata(limit=limit))) for limit in (0, 2)] == [0, 2]
    assert data(prometheus.metadata("nothing")) == {}


def test_a_client_takes_us_for_prometheus_and_new_enough() -> None:
    body = data(prometheus.build_info("0.1.0"))
    assert {"application", "features"} & set(body) == set()
    assert tuple(map(int, body["version"].split("."))) >= (2, 24, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PrometheusError("execution", "no"), "execution"),
        (PrometheusError("timeout", "no"), "timeout"),
        (BadRequest("no"), "bad_data"),
        (BodyTooLarge("no"), "bad_data"),
        (StoreUnavailable("no"), "unavailable"),
    ],
)
def test_every_error_of_ours_has_a_type_that_clients_know(error: Any, kind: str) -> None:
    assert prometheus.failure(error) == {"status": "error", "errorType": kind, "error": "no"}


def test_warnings_and_infos_stand_beside_the_data() -> None:
    body = json.loads(prometheus.result(Scalar(1.0), 1.0, 0, ["slow"], ["perhaps no counter"]))
    assert body["warnings"] == ["slow"]
    assert body["infos"] == ["perhaps no counter"]
    assert "infos" not in json.loads(prometheus.result(Scalar(1.0), 1.0))
