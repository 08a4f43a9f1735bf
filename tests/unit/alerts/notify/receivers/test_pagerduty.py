"""PagerDuty: Events API v2 and v1."""

from __future__ import annotations

import hashlib

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import FIRING, KEY, RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving

DEDUP = hashlib.sha256(KEY.encode()).hexdigest()


def events(request: Request) -> Answer:
    """The checks of /v2/enqueue."""
    event, errors = request.json, []
    if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        errors.append("'event_action' is invalid")
    if len(event.get("routing_key", "")) != 32:
        errors.append("'routing_key' is invalid")
    about = event.get("payload", {})
    if event.get("event_action") == "trigger":
        errors += [
            f"'payload.{name}' is missing"
            for name in ("summary", "source", "severity")
            if not about.get(name)
        ]
        if about.get("severity") not in ("critical", "error", "warning", "info"):
            errors.append("'payload.severity' is invalid")
        if len(about.get("summary", "")) > 1024:
            errors.append("'payload.summary' is too long")
    elif not event.get("dedup_key"):
        errors.append("'dedup_key' is missing")
    if errors:
        return Answer(
            400, {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
        )
    return Answer(202, {"status": "success", "message": "Event processed", "dedup_key": event["dedup_key"]})


ROUTING = "0123456789abcdef0123456789abcdef"


def test_an_incident_is_triggered_and_resolved_by_the_same_key() -> None:
    with serving(events) as api:
        general = f"{{pagerduty_url: '{api.url}/v2/enqueue'}}"
        settings = """{routing_key_file: key, severity: '{{ .CommonLabels.severity }}', details: {env: prod},
            links: [{href: 'http://l', text: t}]}"""
        pager = receiver("pagerduty", settings, general, {"key": f"{ROUTING}\n"})
        pager.send(message())
        pager.send(message(RESOLVED))
    trigger, resolve = (request.json for request in api.requests)
    assert (trigger["event_action"], trigger["dedup_key"]) == ("trigger", DEDUP)
    assert (resolve["event_action"], resolve["dedup_key"]) == ("resolve", DEDUP)
    about = trigger["payload"]
    assert (about["summary"], about["severity"], about["source"]) == (
        "[FIRING:1] orders (shop) has failed.",
        "critical",
        "Spark control plane",
    )
    details = about["custom_details"]
    assert (details["env"], details["num_firing"], details["num_resolved"]) == ("prod", "1", "0")
    assert "Runbook: http" in details["firing"]
    assert trigger["client_url"].endswith(f"/alerts?alert={FIRING.fingerprint}")
    assert trigger["links"] == [{"href": "http://l", "text": "t"}]


def test_an_unknown_severity_and_a_long_summary_are_made_valid() -> None:
    with serving(events) as api:
        settings = (
            f"{{routing_key: {ROUTING}, url: '{api.url}', severity: page, description: '{'x' * 2000}'}}"
        )
        receiver("pagerduty", settings).send(message())
    assert api.requests[0].json["payload"]["severity"] == "error"


def test_details_beyond_the_limit_are_left_out() -> None:
    many = ", ".join(f"k{number}: '{{{{ printf \"%1000s\" .Status }}}}'" for number in range(520))
    with serving(events) as api:
        receiver("pagerduty", f"{{routing_key: {ROUTING}, url: '{api.url}', details: {{{many}}}}}").send(
            message()
        )
    assert list(api.requests[0].json["payload"]["custom_details"]) == ["error"]


def test_a_service_key_uses_the_first_version_of_the_api() -> None:
    with serving(lambda request: Answer(200, {"status": "success"})) as api:
        pager = receiver("pagerduty", f"{{service_key: s, url: '{api.url}/create_event.json'}}")
        pager.send(message())
        pager.send(message(RESOLVED))
    first, last = (request.json for request in api.requests)
    assert (first["service_key"], first["event_type"], first["incident_key"]) == ("s", "trigger", DEDUP)
    assert (last["event_type"], last["incident_key"]) == ("resolve", DEDUP)


def test_a_refused_event_is_permanent_and_names_the_reason() -> None:
    with serving(events) as api, pytest.raises(ReceiverError, match="routing_key") as caught:
        receiver("pagerduty", f"{{routing_key: short, url: '{api.url}'}}").send(message())
    assert not caught.value.retryable


def test_exactly_one_key_is_needed() -> None:
    assert "exactly one" in problems("pagerduty", "{}")[0]
    assert "exactly one" in problems("pagerduty", "{routing_key: a, service_key: b}")[0]
