"""Splunk On-Call's REST endpoint."""

from __future__ import annotations

from alerts.notify.receivers.base import dedup_key
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving

TYPES = ("CRITICAL", "WARNING", "INFO", "ACKNOWLEDGEMENT", "RECOVERY")


def endpoint(request: Request) -> Answer:
    document = request.json
    valid = (
        request.path == "/alert/k/team%20a" and document["message_type"] in TYPES and document["entity_id"]
    )
    return Answer(200, {"result": "success"}) if valid else Answer(400, {"result": "failure"})


def test_an_incident_opens_and_recovers_with_the_same_entity() -> None:
    with serving(endpoint) as api:
        settings = "{api_key: k, routing_key: team a, message_type: warning, custom_fields: {env: '{{ .GroupLabels.app }}'}}"
        victorops = receiver("victorops", settings, f"{{victorops_api_url: '{api.url}/alert/'}}")
        victorops.send(message())
        victorops.send(message(RESOLVED))
    first, last = (request.json for request in api.requests)
    assert (first["message_type"], last["message_type"]) == ("WARNING", "RECOVERY")
    assert first["entity_id"] == last["entity_id"] == dedup_key(message())
    assert (first["env"], first["entity_display_name"]) == ("shop", "[FIRING:1] orders (shop) has failed.")
    assert "Runbook" in first["state_message"]


def test_fields_of_the_api_are_not_replaced() -> None:
    assert (
        "is a field of the API"
        in problems("victorops", "{api_key: k, routing_key: r, custom_fields: {entity_id: x}}")[0]
    )
