"""Alerts, silences, rules and replays as bodies: order, counts, null for what is not known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from alerts.acknowledgements import Acknowledgement
from alerts.matching.labels import Matcher
from alerts.replay import Episode, Pace, Problem, RuleReplay
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.silences import Silence
from alerts.state import Alert, AlertState
from alerts.yaml.tree import DocumentError
from controlplane.alerting.views import AlertView, GroupView, RuleView
from controlplane.api import alerting
from controlplane.api.alerting_bodies import SilenceRequest
from controlplane.errors import BadRequest
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from tests.unit.alerts.examples import alert, resolved

NOW = 1_795_152_000.0


def view(item: Alert, **more: object) -> AlertView:
    return replace(AlertView(item, "life", "the condition holds"), **more)


def pending(name: str, at: float, **labels: str) -> Alert:
    return replace(alert(name, at, **labels), state=AlertState.PENDING, fired_at=None)


def test_firing_comes_first_then_the_worst_then_the_newest() -> None:
    views = [
        view(resolved(alert("Over", severity="critical"), 2000.0)),
        view(pending("Waits", 3000.0, severity="critical")),
        view(alert("Odd", 3000.0, severity="page")),
        view(alert("Info", 3000.0, severity="info")),
        view(alert("Old", 1000.0, severity="critical")),
        view(alert("New", 2000.0, severity="critical")),
        view(alert("Warning", 3000.0, severity="warning")),
    ]
    names = [item.alert.rule for item in alerting.in_order(views)]
    assert names == ["New", "Old", "Warning", "Info", "Odd", "Waits", "Over"]


def test_counts_are_of_all_and_the_list_of_the_states_asked_for() -> None:
    acknowledged = Acknowledgement("f", 1000.0, "ada", 1000.0)
    views = [
        view(alert("A"), silenced_by=("s",), inhibited_by=(alert("B"),)),
        view(alert("B"), acknowledgement=acknowledged),
        view(pending("C", 1.0), silenced_by=("s",)),
        view(resolved(alert("D"), 2.0)),
    ]
    body = alerting.alerts_body(views, {AlertState.PENDING}, NOW)
    assert [item.name for item in body.alerts] == ["C"]
    assert body.counts.model_dump() == {
        "firing": 2,
        "pending": 1,
        "silenced": 1,
        "inhibited": 1,
        "acknowledged": 1,
    }
    assert len(alerting.alerts_body(views, (), NOW).alerts) == 4


def test_unknown_fields_of_an_alert_are_null() -> None:
    body = alerting.alert_body(view(replace(alert("A", severity="page"), value=math.inf)))
    assert (body.value, body.app, body.query, body.query_id, body.notified) == (None,) * 5
    assert (body.severity, body.labels["severity"]) == ("", "page")


def test_an_alert_names_who_inhibits_it_who_works_on_it_and_what_was_reported() -> None:
    note = NotificationLogEntry(NOW, "pager/webhook[0]", "{}", DeliveryOutcome.SENT, "first", ("f",))
    item = view(
        alert("A"),
        inhibited_by=(alert("B"),),
        acknowledgement=Acknowledgement("f", 1.0, "ada", NOW, "on it"),
        notified=note,
    )
    body = alerting.alert_body(item).model_dump()
    assert body["inhibited_by"] == [{"fingerprint": alert("B").fingerprint, "name": "B"}]
    assert body["acknowledged"] == {"by": "ada", "at": "2026-11-20T05:20:00.000Z", "comment": "on it"}
    assert body["notified"]["receiver"] == "pager/webhook[0]"
    assert alerting.note_body(note).alerts == 1


@pytest.mark.parametrize(
    ("labels", "is_about"),
    [
        ({"query_id": "q", "app": "shop"}, True),
        ({"query_id": "other", "app": "shop"}, False),
        ({"app": "shop"}, True),
        ({"app": "other"}, False),
        ({}, False),
    ],
)
def test_an_alert_of_an_application_is_about_all_its_queries(labels: dict[str, str], is_about: bool) -> None:
    assert alerting.is_about(alert("A", **labels), "q", "shop") is is_about


def test_of_a_query_that_is_not_known_only_its_own_alerts_are() -> None:
    assert not alerting.is_about(alert("A"), "q", None)
    assert alerting.is_about(alert("A", query_id="q"), "q", None)


def test_a_silence_counts_the_firing_alerts_it_covers_until_it_is_over() -> None:
    silence = Silence("s", (Matcher("app", "=~", "a|b"),), NOW, NOW + 60, "ada", "", NOW)
    firing = [alert("A", app="a"), alert("A", app="b"), alert("A", app="c")]
    body = alerting.silence_body(silence, firing, NOW)
    assert (body.alerts, body.state, body.text) == (2, "active", '{app=~"a|b"}')
    assert alerting.silence_body(silence, firing, NOW + 60).alerts == 0
    assert alerting.silence_body(silence, firing, NOW - 1).state == "pending"


def test_a_silence_that_should_have_begun_begins_now() -> None:
    request = SilenceRequest(matchers="a=b", starts_at=NOW - 60, duration_seconds=60)
    silence = alerting.silence_of(request, "ada", NOW)
    assert (silence.starts_at, silence.ends_at, silence.created_by) == (NOW, NOW + 60, "ada")


def test_a_silence_must_say_once_when_it_ends() -> None:
    for times in ({}, {"ends_at": NOW, "duration_seconds": 1.0}):
        with pytest.raises(BadRequest, match="either ends_at or duration_seconds"):
            alerting.silence_of(SilenceRequest(matchers="a=b", **times), "ada", NOW)


def rule(**fields: object) -> Rule:
    return replace(Rule(RuleKind.ALERT, "A", "m > 5", None), **fields)


@pytest.mark.parametrize(
    ("shown", "state", "health"),
    [
        (RuleView(rule()), "inactive", "unknown"),
        (RuleView(rule(), evaluated_at=NOW), "inactive", "ok"),
        (RuleView(rule(), (pending("A", 1.0),), evaluated_at=NOW), "pending", "ok"),
        (RuleView(rule(), (pending("A", 1.0), alert("A")), evaluated_at=NOW), "firing", "ok"),
        (RuleView(rule(), (alert("A"),), "too many", NOW), "firing", "err"),
        (RuleView(rule(), (resolved(alert("A"), 2.0),), evaluated_at=NOW), "inactive", "ok"),
    ],
)
def test_a_rule_has_its_definition_and_health(shown: RuleView, state: str, health: str) -> None:
    group = RuleGroup("life", (shown.rule,), source="rules.yaml")
    body = alerting.group_body(GroupView(group, 15.0, rules=(shown,)))
    assert (body.key, body.file, body.evaluated_at) == ("rules.yaml;life", "rules.yaml", None)
    assert (body.rules[0].state, body.rules[0].health) == (state, health)


def test_all_mistakes_of_rules_are_in_the_answer() -> None:
    mistakes = [DocumentError(number, 1, "wrong") for number in range(1, 6)]
    with pytest.raises(BadRequest, match="line 1, column 1: wrong; line 2") as raised:
        alerting.rules_or_mistakes((), mistakes)
    assert len(raised.value.detail["mistakes"]) == 5


def test_a_replay_reports_what_was_truncated() -> None:
    found = RuleReplay(
        episodes=(Episode("A", "g", {"a": "b"}, NOW, NOW, math.nan),),
        problems=(Problem("B", "many", NOW, 3),),
        paces=(Pace("g", 15.0, 45.0), Pace("h", 15.0, 15.0)),
        evaluations=9,
        until=NOW,
        left_out=2,
    )
    body = alerting.replay_body(found, NOW - 60, NOW + 60)
    assert (body.episodes[0].value, body.episodes[0].resolved_at) == (None, None)
    assert (body.errors[0].rule, body.errors[0].count) == ("B", 3)
    coarse, cut, more = body.notes
    assert coarse.startswith("the group g was evaluated every 45 s, not every 15 s")
    assert "the replay reached its time limit at 2026-11-20T05:20:00.000Z" in cut
    assert more == "2 further alerts are not listed"
