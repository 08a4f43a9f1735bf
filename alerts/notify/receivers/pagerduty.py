"""PagerDuty receiver: Events API v2 (`routing_key`) and v1 (`service_key`), one incident for each group of alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alerts.notify.configuration.schema import (
    Settings,
    anything,
    boolean,
    duration,
    mappings,
    secret,
    template,
)
from alerts.notify.http.client import encoded
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import (
    IntegrationReceiver,
    ReceiverKind,
    dedup_key,
    shortened,
    without_empty,
)

EVENTS_V2 = "https://events.pagerduty.com/v2/enqueue"
EVENTS_V1 = "https://events.pagerduty.com/generic/2010-04-15/create_event.json"
MAX_SUMMARY, MAX_EVENT_BYTES = 1024, 512_000
SEVERITIES = ("critical", "error", "warning", "info")
DETAILS = {
    "firing": '{{ template "pagerduty.default.instances" .Alerts.Firing }}',
    "resolved": '{{ template "pagerduty.default.instances" .Alerts.Resolved }}',
    "num_firing": "{{ .Alerts.Firing | len }}",
    "num_resolved": "{{ .Alerts.Resolved | len }}",
}
SCHEMA = {
    "send_resolved": boolean(True),
    "routing_key": secret(),
    "service_key": secret(),
    "url": url(inherits="pagerduty_url"),
    "client": template('{{ template "pagerduty.default.client" . }}'),
    "client_url": template('{{ template "pagerduty.default.clientURL" . }}'),
    "description": template('{{ template "pagerduty.default.description" . }}'),
    "severity": template("error"),
    "source": template(),
    "details": anything(),
    "images": mappings({"href": template(), "src": template(), "alt": template()}),
    "links": mappings({"href": template(), "text": template()}),
    "component": template(),
    "class": template(),
    "group": template(),
    "timeout": duration(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class PagerDuty(IntegrationReceiver):
    """Triggers or resolves the incident of a group."""

    def send(self, message: Message) -> None:
        """Enqueue an event. Raises ReceiverError where PagerDuty refuses it."""
        fields, http = self.integration.rendered(message), self.integration.http
        details = {name: self._text(text, message) for name, text in DETAILS.items()}
        fields = {**fields, "details": {**details, **fields["details"]}}
        client = http.with_timeout(fields["timeout"]) if fields["timeout"] else http
        if fields["service_key"]:
            key = self._text(fields["service_key"], message)
            client.send(fields["url"] or EVENTS_V1, _bounded(event_v1(fields, key, message), "details"))
        else:
            key = self._text(fields["routing_key"], message)
            client.send(fields["url"] or EVENTS_V2, event_v2(fields, key, message))

    def _text(self, text: str, message: Message) -> str:
        return self.integration.render(text, message)


def event_v2(fields: Settings, key: str, message: Message) -> dict[str, Any]:
    """An event of the API v2."""
    severity = fields["severity"].lower()
    about = without_empty({
        "summary": shortened(fields["description"], MAX_SUMMARY),
        "source": fields["source"] or fields["client"],
        "severity": severity if severity in SEVERITIES else "error",
        "component": fields["component"],
        "class": fields["class"],
        "group": fields["group"],
        "custom_details": fields["details"],
    })  # fmt: skip
    event = without_empty({
        "routing_key": key,
        "event_action": "trigger" if message.firing else "resolve",
        "dedup_key": dedup_key(message),
        "client": fields["client"],
        "client_url": fields["client_url"],
        "images": [without_empty(image) for image in fields["images"] if image["src"]],
        "links": [without_empty(link) for link in fields["links"] if link["href"]],
        "payload": about,
    })  # fmt: skip
    if len(encoded(event)) > MAX_EVENT_BYTES:
        about["custom_details"] = _omitted()
    return event


def event_v1(fields: Settings, key: str, message: Message) -> dict[str, Any]:
    """An event of the API v1."""
    return without_empty({
        "service_key": key,
        "event_type": "trigger" if message.firing else "resolve",
        "incident_key": dedup_key(message),
        "description": shortened(fields["description"], MAX_SUMMARY),
        "client": fields["client"],
        "client_url": fields["client_url"],
        "details": fields["details"],
    })  # fmt: skip


def _bounded(event: dict[str, Any], name: str) -> dict[str, Any]:
    return event if len(encoded(event)) <= MAX_EVENT_BYTES else {**event, name: _omitted()}


def _omitted() -> dict[str, str]:
    return {"error": f"the details exceed PagerDuty's limit of {MAX_EVENT_BYTES} bytes and are left out"}


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    if bool(settings["routing_key"]) == bool(settings["service_key"]):
        return "exactly one of routing_key and service_key must be set"
    return None


KIND = ReceiverKind(SCHEMA, PagerDuty, problem)
