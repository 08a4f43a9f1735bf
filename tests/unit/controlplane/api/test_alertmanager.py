"""Alertmanager's shapes: what passes a filter, the order of silences, a configuration that reads back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.grouping import Group
from alerts.matching.labels import Matcher
from alerts.notify.config import load
from alerts.routing import Timing
from alerts.rules.pack import render_routing
from alerts.silences import Silence
from alerts.state import AlertState
from controlplane.alerting.views import AlertView
from controlplane.api import alertmanager
from controlplane.api.alertmanager import PostableMatcher, PostableSilence, filter_of
from controlplane.errors import BadRequest
from listeners.protocol.wire import rfc3339
from tests.unit.alerts.examples import alert, resolved

NOW = 1_795_152_000.1239
URL = "http://page"
FIRING = AlertView(alert("A"), "g", "", receivers=("pager", "team"))
SILENCED = replace(FIRING, alert=alert("B"), silenced_by=("s",))
INHIBITED = replace(FIRING, alert=alert("C"), inhibited_by=(alert("A"),))
BOTH = replace(SILENCED, alert=alert("D"), inhibited_by=(alert("A"),))
PENDING = replace(FIRING, alert=replace(alert("E"), state=AlertState.PENDING, fired_at=None))
OVER = replace(FIRING, alert=resolved(alert("F"), 2000.0))
VIEWS = (FIRING, SILENCED, INHIBITED, BOTH, PENDING, OVER)


@pytest.mark.parametrize(
    ("active", "silenced", "inhibited", "names"),
    [
        (True, True, True, "ABCD"),
        (True, False, True, "AC"),
        (True, True, False, "AB"),
        (True, False, False, "A"),
        (False, True, True, "BCD"),
        (False, False, False, ""),
    ],
)
def test_alerts_pass_by_their_state(active: bool, silenced: bool, inhibited: bool, names: str) -> None:
    asked = filter_of((), active, silenced, inhibited, None)
    found = alertmanager.alerts(VIEWS, asked, URL, NOW)
    assert sorted(item["labels"]["alertname"] for item in found) == sorted(names)
    assert [item["fingerprint"] for item in found] == sorted(item["fingerprint"] for item in found)


def test_the_pattern_of_receivers_is_anchored() -> None:
    assert alertmanager.alerts(VIEWS, filter_of((), True, True, True, "page"), URL, NOW) == []
    assert len(alertmanager.alerts([FIRING], filter_of((), True, True, True, "page.*"), URL, NOW)) == 1
    with pytest.raises(BadRequest, match="receiver: "):
        filter_of((), True, True, True, "(")


def test_groups_without_an_alert_that_passes_are_left_out() -> None:
    times = Timing()
    group = Group("{}:{}", "team", {"app": "x"}, times, 0.0, {v.alert.fingerprint: v.alert for v in VIEWS})
    empty = replace(group, labels={"app": "y"}, alerts={})
    ended = replace(group, labels={"app": "z"}, alerts={OVER.alert.fingerprint: OVER.alert})
    asked = filter_of((), True, False, False, None)
    [shown] = alertmanager.groups([empty, ended, group], VIEWS, asked, URL, NOW)
    assert (shown["labels"], shown["receiver"]) == ({"app": "x"}, {"name": "team"})
    assert [item["labels"]["alertname"] for item in shown["alerts"]] == ["A"]
    assert alertmanager.groups([group], VIEWS, filter_of((), True, True, True, "pager"), URL, NOW) == []


def silence(id: str, start: float, end: float, *matchers: Matcher) -> Silence:
    return Silence(id, matchers or (Matcher("a", "=", "b"),), NOW + start, NOW + end, "ada", "", NOW)


def test_silences_come_as_alertmanager_sorts_them() -> None:
    found = [
        silence("expired long ago", -60, -50),
        silence("expired just now", -60, -1),
        silence("begins later", 20, 90),
        silence("begins soon", 10, 90),
        silence("ends later", -60, 20),
        silence("ends soon", -60, 10),
    ]
    shown = [item["id"] for item in alertmanager.silences(found, (), NOW)]
    assert shown == [item.id for item in reversed(found)]


def test_a_filter_of_silences_names_matchers_that_they_have() -> None:
    item = silence("s", -1, 9, Matcher("a", "=", "b"), Matcher("c", "=~", "d"))
    assert alertmanager.silences([item], ['a="b"'], NOW)
    assert alertmanager.silences([item], ['a="b"', 'c=~"d"'], NOW)
    assert not alertmanager.silences([item], ['c="d"'], NOW)
    assert not alertmanager.silences([item], ['a=~"b"'], NOW)


@pytest.mark.parametrize("operator", ["=", "!=", "=~", "!~"])
def test_matchers_come_back_as_they_were_shown(operator: str) -> None:
    item = silence("s", -1, 9, Matcher("a", operator, "b"))
    shown = alertmanager.silence(item, NOW)
    back = alertmanager.silence_of(PostableSilence.model_validate(shown), item, NOW)
    assert (back.matchers, back.starts_at) == (item.matchers, item.starts_at)


def test_a_new_silence_does_not_begin_in_the_past_and_a_changed_one_may() -> None:
    posted = PostableSilence(
        matchers=[PostableMatcher(name="a", value="b", isRegex=False)],
        startsAt=rfc3339(NOW - 60),
        endsAt=rfc3339(NOW + 60),
        createdBy="ada",
        comment="",
    )
    assert alertmanager.silence_of(posted, None, NOW).starts_at == NOW
    assert alertmanager.silence_of(posted, silence("s", -90, 60), NOW).starts_at < NOW


CONFIGURATIONS = [
    render_routing(),
    render_routing(0.01, "https://hooks.example:8443/hunter2?key=hunter2"),
    """
route:
  receiver: a
  group_by: ['...']
  repeat_interval: 1d
  routes:
    - {receiver: b, match: {x: 'quo"te', y: "back\\\\slash"}, match_re: {z: "1|2"}, group_by: [], continue: true}
    - {receiver: a, matchers: ['é=~"ü.*"', 'n!="line\\nend"'], routes: [{matchers: ['a!~"b"']}]}
receivers:
  - name: a
    webhook_configs:
      - {url_file: /run/hunter2, http_config: {authorization: {credentials_file: /run/hunter2}}}
  - name: b
""".replace("é=", "e="),
]


@pytest.mark.parametrize("text", CONFIGURATIONS, ids=["shipped", "webhook", "wild"])
def test_a_configuration_reads_back_the_same_but_for_its_secrets(text: str) -> None:
    config, mistakes = load(text)
    assert mistakes == ()
    assert config is not None
    shown = alertmanager.status(config, "1", NOW)["config"]["original"]
    assert "hunter2" not in shown
    back, wrong = load(shown)
    assert wrong == ()
    assert back is not None
    assert back.route == config.route
    assert [(r.sources, r.targets, r.equal) for r in back.inhibit_rules] == [
        (r.sources, r.targets, r.equal) for r in config.inhibit_rules
    ]
    assert [(r.name, len(r.integrations)) for r in back.receivers.values()] == [
        (r.name, len(r.integrations)) for r in config.receivers.values()
    ]


def test_sections_of_prometheus_are_left_out_and_routes_are_there() -> None:
    """amtool reads the configuration and knows neither."""
    text = "global: {external_labels: {a: b}}\nalerting: {alertmanagers: [{static_configs: [{targets: [am]}]}]}\n"
    config, mistakes = load(text)
    assert config is not None, mistakes
    shown, mistakes = load(alertmanager.written(config))
    assert shown is not None and not mistakes
    assert (shown.alertmanagers, shown.external_labels, shown.route.receiver) == ((), {}, "nobody")
