"""Files of policies: what they mean, and every mistake with its place."""

from __future__ import annotations

import pytest

from controlplane.model import QueryStatus
from controlplane.supervision.policies import (
    ParallelLimit,
    PolicySet,
    RestartBudget,
    RestartRule,
    RetryClass,
    RetryDelay,
    StatusTrigger,
)
from controlplane.supervision.policy_file import BUILT_IN, load

FULL = """\
policies:
  - name: payments
    match: ['team="payments"', 'env=~"prod|stage"']
    mode: act
    restart:
      on: [failed, {status: lagging, for: 30m}]
      backoff: {initial: 5s, factor: 3, max: 10m, jitter: 0}
      budget: {restarts: 2, per: 1h, reset_after_healthy: 20m}
      drain: true
      max_parallel: {app: 2, fleet: 3}
      windows: [{weekdays: ['monday:friday'], times: [{start_time: '09:00', end_time: '17:00'}]}]
      checkpoint: ok
  - name: rest
conditions: {SOME_CONDITION: never}
"""


def read(text: str) -> PolicySet:
    found, mistakes = load(text)
    assert found is not None, mistakes
    return found


def test_a_policy_is_read_with_all_its_fields() -> None:
    found = read(FULL)
    rule = found.policies[0].restart
    assert found.policies[0].acts
    assert rule.triggers == (StatusTrigger(QueryStatus.FAILED), StatusTrigger(QueryStatus.LAGGING, 1800.0))
    assert rule.delay == RetryDelay(5.0, 3.0, 600.0, 0.0)
    assert rule.budget == RestartBudget(2, 3600.0, 1200.0)
    assert (rule.drain, rule.parallel, rule.checkpoint) == (True, ParallelLimit(2, 3), "ok")
    monday_noon, sunday_noon = 1_795_435_200.0, 1_795_348_800.0
    assert rule.windows.contains(monday_noon) and not rule.windows.contains(sunday_noon)
    assert found.conditions == {"SOME_CONDITION": RetryClass.NEVER}


def test_what_a_policy_leaves_out_has_defaults_and_nothing_acts_by_default() -> None:
    policies = (*read(FULL).policies[1:], *read(BUILT_IN).policies)
    assert [(policy.acts, policy.restart) for policy in policies] == [(False, RestartRule())] * 2


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("mode: act", "mode: always", "4:11: mode: 'always' is not one of observe, act"),
        ("failed, {", "stopped, {", "6:12: on: 'stopped' is not one of failed, lost, stuck, lagging"),
        ("status: lagging, ", "", "6:20: an element of on needs a status"),
        ("[failed, {status: lagging, for: 30m}]", "[failed, failed]", "6:11: on: a status occurs twice"),
        ("factor: 3", "factor: 0.5", "7:38: factor: '0.5' is not a number from 1 to 100"),
        ("max: 10m", "max: 1s", "7:46: max must not be less than initial"),
        ("jitter: 0", "jitter: nan", "7:59: jitter: 'nan' is not a number from 0 to 1"),
        ("restarts: 2", "restart: 2", "8:16: budget has no field 'restart'; did you mean 'restarts'?"),
        ("app: 2", "app: 0", "10:27: app: must be at least 1; to restart nothing, use mode: observe"),
        ("'09:00'", "'9'", "11:68: start_time: '9' is not a time from 00:00 to 24:00"),
        ("checkpoint: ok", "checkpoint: fine", "12:19: checkpoint: 'fine' is not one of not_broken, ok"),
        ("name: rest", "name: payments", "13:5: policy 'payments' is not unique"),
        ("never}", "perhaps}", "14:30: 'perhaps' is not one of now, later, once, never"),
        ("policies:", "policys:", "1:1: policies is missing"),
    ],
)
def test_a_mistake_is_found_with_its_place(before: str, after: str, place: str) -> None:
    found, mistakes = load(FULL.replace(before, after, 1))
    assert found is None
    assert place in [f"{m.line}:{m.column}: {m.message}" for m in mistakes]


def test_all_mistakes_are_reported_at_once() -> None:
    _, mistakes = load(FULL.replace("mode: act", "mode: x").replace("drain: true", "drain: maybe"))
    assert [m.line for m in mistakes] == [4, 9]
    assert load("")[1] and load("- a")[1] and load("policies: x")[1]


def test_a_policy_that_hides_later_ones_is_a_mistake() -> None:
    _, mistakes = load("policies:\n  - name: all\n  - {name: b, match: ['a=\"b\"']}\n")
    assert ["all" in m.message and m.line == 2 for m in mistakes] == [True]


def test_a_bad_matcher_is_a_mistake() -> None:
    _, mistakes = load(FULL.replace("'team=\"payments\"'", "'team'"))
    assert [m.line for m in mistakes] == [3]


def test_the_first_policy_that_matches_holds_and_the_reason_is_given() -> None:
    found = read(FULL)
    labels = {"team": "payments", "env": "prod"}
    assert [match.why for match in found.explain(labels)] == [
        'The query meets team="payments", env=~"prod|stage".'
    ]
    passed, held = found.explain({"team": "growth"})
    assert (passed.matches, passed.why) == (False, "team=\"payments\" does not match: team is 'growth'.")
    assert (held.policy.name, held.why) == ("rest", "It matches every query.")
    assert PolicySet(found.policies[:1]).of({}) is None
