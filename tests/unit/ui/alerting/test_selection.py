"""Alerts of each view, permissions of each role, and the body of a silence."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tests.ui import alerting_factories as factories
from tests.ui.factories import NOW, rfc3339
from ui.alerting import selection


def names(alerts: list) -> set[str]:
    return {alert["name"] for alert in alerts if not alert["name"].startswith(":")}


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ("firing", {"QueryFailed", "Stuck", "LagGrowing"}),
        ("suppressed", {"LagSecondsHigh", "Overrun"}),
        ("pending", {"LongBatch"}),
        ("resolved", {"WatermarkStuck"}),
    ],
)
def test_each_alert_is_in_the_view_of_its_state(view: str, found: set[str]) -> None:
    assert names(selection.of_view(factories.troubled_alerts(NOW), view)) == found


@pytest.mark.parametrize(
    ("search", "fields", "found"),
    [
        (
            "",
            {},
            {
                "QueryFailed",
                "Stuck",
                "LagGrowing",
                "LagSecondsHigh",
                "Overrun",
                "LongBatch",
                "WatermarkStuck",
            },
        ),
        ("LAG growing", {}, {"LagGrowing"}),
        ("falls behind", {}, {"LagGrowing"}),
        ("severity=critical", {}, {"QueryFailed", "Stuck"}),
        ("", {"severity": ["critical"]}, {"QueryFailed", "Stuck"}),
        ("", {"app": ["clicks"], "severity": ["critical"]}, {"Stuck"}),
        ("sessions", {"app": ["orders"]}, set()),
    ],
)
def test_filters_narrow_the_alerts(search: str, fields: dict, found: set[str]) -> None:
    assert names(selection.matching(factories.troubled_alerts(NOW), search, **fields)) == found


def test_an_alert_without_app_or_severity_can_be_found() -> None:
    bare = {"name": "Own", "labels": {"alertname": "Own"}, "severity": None, "app": None}
    assert selection.matching([bare], "own") == [bare]
    assert selection.matching([bare], "own", severity=[""]) == [bare]


def test_notifications_of_the_period_are_found_by_their_text() -> None:
    notes = [factories.note(), factories.note(at=rfc3339(NOW - 7200), reason="repeat interval elapsed")]
    assert selection.newer_than(notes, 3600, NOW) == notes[:1]
    assert selection.matching_text(notes, "REPEAT on-call", "reason", "receiver") == notes[1:]


@pytest.mark.parametrize(
    ("role", "overrides", "reason"),
    [
        ("operator", {}, None),
        ("admin", {}, None),
        (None, {}, None),
        ("viewer", {}, "Your role is viewer."),
        ("operator", {"state": "pending"}, "The alert is pending"),
        ("operator", {"acknowledged": {"by": "ada"}}, "Already acknowledged by ada."),
    ],
)
def test_only_an_operator_acknowledges_and_only_firing_alerts(
    role: str | None, overrides: dict, reason: str | None
) -> None:
    refusal = selection.acknowledge_refusal(factories.alert(**overrides), role)
    assert refusal is None if reason is None else reason in str(refusal)


def test_a_silence_is_prefilled_with_this_alert_of_this_query() -> None:
    labels = {"alertname": "Lag", "app": 'a "b" \\', "query": "q", "query_id": "x\ny", "team": "t"}
    assert selection.matcher_lines(selection.prefilled_matchers(labels)) == (
        'alertname="Lag"',
        r'app="a \"b\" \\"',
        r'query_id="x\ny"',
    )
    assert selection.prefilled_matchers({"alertname": "Own"}) == 'alertname="Own"'


def test_a_silence_has_a_duration_or_an_end() -> None:
    an_hour = selection.silence_request(["a=b"], "1h", None, "why")
    assert (an_hour["duration_seconds"], an_hour["ends_at"]) == (3600, None)
    moment = datetime(2026, 11, 18, 14, 0, tzinfo=timezone(timedelta(hours=1)))
    until = selection.silence_request(["a=b"], selection.UNTIL, moment, "")
    assert (until["duration_seconds"], until["ends_at"]) == (None, "2026-11-18T13:00:00Z")
    assert datetime.fromisoformat(until["ends_at"]) == moment.astimezone(UTC)


def test_morning_is_the_next_eight_o_clock_where_the_viewer_is() -> None:
    zone = ZoneInfo("Europe/Berlin")
    night, day = datetime(2026, 10, 24, 23, 30, tzinfo=zone), datetime(2026, 10, 25, 8, 0, tzinfo=zone)
    assert selection.next_morning(night) == day  # summer time ends that night: 9.5 hours
    assert selection.next_morning(day) == datetime(2026, 10, 26, 8, 0, tzinfo=zone)
    request = selection.silence_request(["a=b"], selection.MORNING, selection.next_morning(night), "")
    assert (request["duration_seconds"], request["ends_at"]) == (None, "2026-10-25T07:00:00Z")


@pytest.mark.parametrize(
    "url",
    ["https://runbooks.example/Lag.md", "http://127.0.0.1:8080/a?b=c#d", "https://[::1]/x"],
)
def test_a_runbook_with_a_web_address_is_a_link(url: str) -> None:
    assert selection.runbook_link(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,<script>",
        "alerts/rules/runbooks/Lag.md",
        "//evil.example",
        "https://",
        "https://good.example\u202e/x",
        "https://good.example/a b",
        "https://[::1/x",
        " https://good.example",
        "",
        None,
        7,
    ],
)
def test_any_other_runbook_is_no_link(url: object) -> None:
    assert selection.runbook_link(url) is None


def test_a_failing_rule_is_shown_as_failing_whatever_its_state() -> None:
    assert selection.rule_state(factories.rule(state="firing", health="err")) == "failing"
    assert selection.rule_state(factories.rule(state="firing")) == "firing"
    assert selection.rule_state(factories.rule(kind="record", state="inactive")) == "record"
