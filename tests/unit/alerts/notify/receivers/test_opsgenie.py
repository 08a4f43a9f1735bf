"""Opsgenie and Jira Service Management."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from alerts.notify.receivers.base import dedup_key
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving

ALIAS = dedup_key(message())


def api_v2(request: Request) -> Answer:
    """Requests are accepted and processed later; the key and the message are checked at once."""
    if request.headers.get("authorization") != "GenieKey k":
        return Answer(401, {"message": "Could not authenticate"})
    document = request.json
    if request.path == "/v2/alerts" and not 0 < len(document.get("message", "")) <= 130:
        return Answer(422, {"message": "Request body is not processable"})
    return Answer(202, {"result": "Request will be processed", "requestId": "r"})


@pytest.mark.parametrize("kind", ["opsgenie", "jsm"])
def test_an_alert_is_created_and_closed_by_its_alias(kind: str) -> None:
    settings = """{{api_key: k, api_url: '{}', tags: 'spark, {{{{ .CommonLabels.severity }}}}', priority: P1, note: n,
        responders: [{{name: 'a,b', type: teams}}, {{id: i, type: user}}], details: {{env: prod}}}}"""
    with serving(api_v2) as api:
        opsgenie = receiver(kind, settings.format(api.url))
        opsgenie.send(message())
        opsgenie.send(message(RESOLVED))
    create, close = api.requests
    document = create.json
    assert (create.path, document["alias"], document["priority"]) == ("/v2/alerts", ALIAS, "P1")
    assert document["tags"] == ["spark", "critical"]
    assert document["details"]["env"] == "prod" and document["details"]["query"] == "orders"
    assert document["responders"] == [
        {"name": "a", "type": "team"},
        {"name": "b", "type": "team"},
        {"id": "i", "type": "user"},
    ]
    assert close.path == f"/v2/alerts/{ALIAS}/close?identifierType=alias"
    assert close.json["note"] == "n"


def test_an_existing_alert_is_updated_where_that_is_wanted() -> None:
    with serving(api_v2) as api:
        receiver(
            "opsgenie", "{update_alerts: true}", f"{{opsgenie_api_key: k, opsgenie_api_url: '{api.url}/'}}"
        ).send(message())
    assert [(request.method, request.path.split("?")[0]) for request in api.requests] == [
        ("POST", "/v2/alerts"),
        ("PUT", f"/v2/alerts/{ALIAS}/message"),
        ("PUT", f"/v2/alerts/{ALIAS}/description"),
    ]


def test_a_wrong_key_is_permanent_and_a_limit_is_not() -> None:
    with serving(api_v2) as api:
        wrong = receiver("opsgenie", f"{{api_key: x, api_url: '{api.url}'}}")
        with pytest.raises(ReceiverError, match="authenticate") as caught:
            wrong.send(message())
        assert not caught.value.retryable
        api.failures = [Answer(429, {"message": "You are making too many requests!"})]
        with pytest.raises(ReceiverError) as limited:
            wrong.send(message())
        assert limited.value.retryable


def test_what_is_missing_is_named() -> None:
    assert "opsgenie_api_key" in problems("opsgenie", "{}")[0]
    assert "needs one of id" in problems("opsgenie", "{api_key: k, responders: [{type: team}]}")[0]
