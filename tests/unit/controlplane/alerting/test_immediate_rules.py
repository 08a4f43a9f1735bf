"""Only what a rule asks about is looked at between two slots."""

from __future__ import annotations

import pytest

from alerts.rules.loader import load
from alerts.rules.model import RuleGroup
from alerts.rules.pack import render
from controlplane.alerting.immediate_rules import is_immediate, watched_statuses
from controlplane.model import QueryStatus


def group(rule: str) -> RuleGroup:
    (found,), mistakes = load("groups: [{name: g, rules: [" + rule + "]}]")
    assert mistakes == ()
    return found


def test_of_the_rules_that_ship_one_group_receives_at_once_and_of_running_and_idle_nothing() -> None:
    groups, _ = load(render())
    assert [item.name for item in groups if is_immediate(item)] == ["streaming-availability"]
    assert {QueryStatus.FAILED, QueryStatus.STUCK} <= watched_statuses(groups)
    assert not {QueryStatus.RUNNING, QueryStatus.IDLE, QueryStatus.STARTING} & watched_statuses(groups)


@pytest.mark.parametrize(
    ("rule", "statuses"),
    [
        ("{alert: A, expr: 'spark_streaming_query_status{status=\"lost\"}'}", {"lost"}),
        ("{alert: A, expr: 'spark_streaming_query_status{status=~\"lost|stuck\"}'}", {"lost", "stuck"}),
        ("{alert: A, expr: spark_streaming_query_failure_info}", {"failed"}),
        ("{alert: A, expr: spark_streaming_query_driver_down}", {"failed", "unreachable"}),
        ("{alert: A, for: 1m, expr: 'spark_streaming_query_status{status=\"lost\"}'}", set()),
        ('{record: "a:b", expr: \'spark_streaming_query_status{status="lost"}\'}', set()),
        ("{alert: A, expr: spark_streaming_state_rows > 1}", set()),
        ("{alert: A, expr: spark_streaming_query_status}", {status.value for status in QueryStatus}),
    ],
)
def test_the_statuses_that_a_rule_asks_about(rule: str, statuses: set[str]) -> None:
    assert {status.value for status in watched_statuses([group(rule)])} == statuses
    assert is_immediate(group(rule)) == bool(statuses)
