"""The tree of routes, as Alertmanager walks it."""

from __future__ import annotations

import pytest

from alerts.notify import config
from alerts.routing import AlertRoute, matching_routes, walk

TREE = """
route:
  receiver: all
  group_by: [app]
  group_wait: 5s
  routes:
    - matchers: [team="data"]
      receiver: data
      group_interval: 1m
      routes:
        - matchers: [severity="critical"]
          receiver: data-pager
          group_by: [...]
    - matchers: [env="prod"]
      receiver: audit
      continue: true
    - matchers: [env="prod", severity="critical"]
      receiver: pager
receivers: [{name: all}, {name: data}, {name: data-pager}, {name: audit}, {name: pager}]
"""


def tree() -> AlertRoute:
    loaded, mistakes = config.load(TREE)
    assert mistakes == ()
    assert loaded is not None
    return loaded.route


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({}, ["all"]),
        ({"team": "ops"}, ["all"]),
        ({"team": "data"}, ["data"]),
        ({"team": "data", "severity": "critical"}, ["data-pager"]),
        ({"team": "data", "env": "prod"}, ["data"]),
        ({"env": "prod"}, ["audit"]),
        ({"env": "prod", "severity": "critical"}, ["audit", "pager"]),
    ],
)
def test_the_first_child_that_matches_takes_an_alert_and_later_ones_where_it_continues(
    labels: dict[str, str], receivers: list[str]
) -> None:
    assert [route.receiver for route in matching_routes(tree(), labels)] == receivers


def test_a_route_inherits_what_it_does_not_say() -> None:
    data = matching_routes(tree(), {"team": "data"})[0]
    assert (data.timing.group_wait, data.timing.group_interval, data.timing.repeat_interval) == (
        5,
        60,
        14_400,
    )
    assert data.group_by == ("app",)
    pager = matching_routes(tree(), {"team": "data", "severity": "critical"})[0]
    assert pager.timing == data.timing


def test_a_group_is_named_by_the_labels_that_the_alert_has() -> None:
    labels = {"app": "shop", "query": "orders", "team": "data"}
    assert matching_routes(tree(), labels)[0].group_labels(labels) == {"app": "shop"}
    assert matching_routes(tree(), {"team": "data"})[0].group_labels({"team": "data"}) == {}
    critical = {**labels, "severity": "critical"}
    assert matching_routes(tree(), critical)[0].group_labels(critical) == critical


def test_routes_are_called_as_alertmanager_calls_them() -> None:
    assert [route.key for route in walk(tree())] == [
        "{}",
        '{}/{team="data"}',
        '{}/{team="data"}/{severity="critical"}',
        '{}/{env="prod"}',
        '{}/{env="prod",severity="critical"}',
    ]
