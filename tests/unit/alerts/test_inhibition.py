"""Inhibition: which alert inhibits which."""

from __future__ import annotations

import pytest

from alerts.grouping import add_alerts
from alerts.inhibition import Inhibitor, InhibitRule
from alerts.matching.labels import parse_matchers
from alerts.notify import config
from alerts.rules.pack import render_routing
from alerts.state import Alert
from tests.unit.alerts.examples import alert, resolved


def rule(source: str, target: str, *equal: str) -> InhibitRule:
    return InhibitRule(parse_matchers(source), parse_matchers(target), equal)


def muted(rules: list[InhibitRule], *alerts: Alert) -> list[str]:
    inhibitor = Inhibitor(rules, alerts)
    return [item.labels["alertname"] for item in alerts if inhibitor.inhibiting(item.labels)]


LAYERS = [rule("alertname=Down", "alertname=Lag", "app")]


def test_a_firing_alert_inhibits_those_that_agree_with_it() -> None:
    down, lag, other = alert("Down", app="shop"), alert("Lag", app="shop"), alert("Lag", app="web")
    assert muted(LAYERS, down, lag, other) == ["Lag"]
    assert Inhibitor(LAYERS, [down]).inhibiting(lag.labels) == (down.fingerprint,)


def test_a_resolved_alert_inhibits_nothing() -> None:
    assert muted(LAYERS, resolved(alert("Down", app="shop"), 1100), alert("Lag", app="shop")) == []


def test_a_label_that_both_lack_is_equal() -> None:
    assert muted(LAYERS, alert("Down"), alert("Lag")) == ["Lag"]
    assert muted(LAYERS, alert("Down", app="shop"), alert("Lag")) == []


def test_an_alert_does_not_mute_itself_nor_two_each_other() -> None:
    wide = [rule('severity="critical"', 'severity=~".+"', "app")]
    item, two = alert("A", severity="critical", app="shop"), alert("B", severity="critical", app="shop")
    assert muted(wide, item, two) == []
    assert muted(wide, item, two, alert("C", severity="info", app="shop")) == ["C"]


SHIPPED = config.load(render_routing())[0]


@pytest.mark.parametrize(
    ("source", "target", "inhibits"),
    [
        (("AgentLost", "agent"), ("QueryFailed", "query"), True),
        (("AgentLost", "agent"), ("Stuck", "stuck"), True),
        (("AgentLost", "agent"), ("LagGrowing", "lag"), True),
        (("AgentLost", "agent"), ("EventsDropped", "telemetry"), True),
        (("DriverFailed", "driver"), ("CrashLoop", "query"), False),
        (("SparkUnreachable", "driver"), ("Stuck", "stuck"), False),
        (("DriverFailed", "driver"), ("QueryFailed", "query"), False),
        (("DriverFailed", "driver"), ("CheckpointTrouble", "query"), False),
        (("QueryFailed", "query"), ("Stuck", "stuck"), True),
        (("QueryFailed", "query"), ("LagGrowing", "lag"), True),
        (("Stuck", "stuck"), ("LagGrowing", "lag"), True),
        (("CrashLoop", "query"), ("QueryFailed", "query"), True),
        (("CheckpointTrouble", "query"), ("QueryFailed", "query"), True),
        (("RestartCannotHelp", "query"), ("QueryFailed", "query"), True),
        (("RestartBudgetSpent", "query"), ("QueryFailed", "query"), True),
        (("CheckpointBroken", "checkpoint"), ("RestartCannotHelp", "query"), True),
        (("QueryFailed", "query"), ("RestartCannotHelp", "query"), False),
        (("QueryFailed", "query"), ("CrashLoop", "query"), False),
        (("LagGrowing", "lag"), ("Stuck", "stuck"), False),
        (("Stuck", "stuck"), ("AgentLost", "agent"), False),
        (("LagGrowing", "lag"), ("LongBatch", "lag"), False),
        (("StateLimitNear", "lag"), ("StateGrowthWithoutEviction", "lag"), True),
        (("EventsDropped", "telemetry"), ("BatchesUnreported", "telemetry"), True),
    ],
)
def test_the_shipped_inhibitions_go_from_agent_to_query_to_stuck_to_lag(
    source: tuple[str, str], target: tuple[str, str], inhibits: bool
) -> None:
    assert SHIPPED is not None
    item = alert(source[0], layer=source[1], app="shop", query_id="q1", severity="critical")
    two = alert(target[0], layer=target[1], app="shop", query_id="q1", severity="warning")
    assert bool(Inhibitor(SHIPPED.inhibit_rules, [item]).inhibiting(two.labels)) is inhibits


def test_the_shipped_inhibitions_stay_within_an_app_and_a_query() -> None:
    assert SHIPPED is not None
    lost = alert("AgentLost", layer="agent", app="shop", severity="critical")
    failed = alert("QueryFailed", layer="query", app="web", query_id="q1", severity="critical")
    lag = alert("LagGrowing", layer="lag", app="web", query_id="q2", severity="warning")
    assert muted(list(SHIPPED.inhibit_rules), lost, failed, lag) == []


def test_an_incident_is_one_notification_until_a_policy_gives_up_on_its_trial() -> None:
    assert SHIPPED is not None
    shared = {"incident": "i1", "kind": "sink", "layer": "incident"}
    query = {"app": "shop", "query_id": "q1"}
    incident, member = alert("FleetIncident", **shared), alert("IncidentMember", **shared, **query)
    muting = Inhibitor(SHIPPED.inhibit_rules, [incident, member])
    for name, labels in {"QueryFailed": {}, "RestartCannotHelp": {"code": "cannot_help"}}.items():
        assert muting.inhibiting(alert(name, layer="query", **query, **labels).labels)
    assert muting.inhibiting(member.labels) == (incident.fingerprint,)
    assert muting.inhibiting(incident.labels) == ()
    for name, code in (("RestartBudgetSpent", "budget_spent"), ("RestartCannotHelp", "tried_once")):
        assert muting.inhibiting(alert(name, layer="query", code=code, **query).labels) == ()
    driver = alert("DriverFailed", layer="driver", app="shop")
    assert muting.inhibiting(driver.labels) == ()
    on_host = alert("IncidentMember", **{**shared, "kind": "host"}, **query)
    assert Inhibitor(SHIPPED.inhibit_rules, [on_host]).inhibiting(driver.labels)


def test_a_critical_alert_inhibits_the_warning_of_the_same_name() -> None:
    assert SHIPPED is not None
    known = {"app": "shop", "query_id": "q1", "source": "kafka", "layer": "lag"}
    critical, warning = (alert("LagSecondsHigh", severity=s, **known) for s in ("critical", "warning"))
    inhibitor = Inhibitor(SHIPPED.inhibit_rules, [critical, warning])
    assert inhibitor.inhibiting(warning.labels) == (critical.fingerprint,)
    assert inhibitor.inhibiting(critical.labels) == ()


def test_alerts_of_two_applications_of_one_spark_connect_server_are_one_notification() -> None:
    assert SHIPPED is not None
    found = [
        alert("SparkUnreachable", layer="driver", app=app, severity="critical", spark_app_id=spark)
        for app, spark in (("shop", "local-1"), ("web", "local-1"), ("other", "local-2"))
    ]
    groups = add_alerts({}, found, SHIPPED.route).values()
    assert sorted(len(group.alerts) for group in groups) == [1, 2]


def test_failed_drivers_of_two_applications_are_two_notifications() -> None:
    assert SHIPPED is not None
    found = [alert("DriverFailed", layer="driver", app=app, severity="critical") for app in ("shop", "web")]
    groups = add_alerts({}, found, SHIPPED.route).values()
    assert [len(group.alerts) for group in groups] == [1, 1]


def test_an_alert_of_every_source_must_fire() -> None:
    loaded, errors = config.load("""
route: {receiver: a}
receivers: [{name: a}]
inhibit_rules:
  - sources: [{matchers: [a="1"], equal: [e]}, {matchers: [b="1"], equal: [f]}]
    target_matchers: [t="1"]
""")
    assert loaded is not None, errors
    first, second = alert("A", a="1", e="x"), alert("B", b="1", f="y")
    target = {"alertname": "T", "t": "1", "e": "x", "f": "y"}
    both = Inhibitor(loaded.inhibit_rules, [first, second])
    assert both.inhibiting(target) == (first.fingerprint, second.fingerprint)
    assert both.inhibiting({**target, "f": "z"}) == ()
    assert Inhibitor(loaded.inhibit_rules, [first]).inhibiting(target) == ()
