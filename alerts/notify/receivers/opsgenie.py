"""Opsgenie and Jira Service Management receivers, whose APIs are the same: one alert for each group, found by its alias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from alerts.notify.configuration.schema import Settings, boolean, mappings, secret, template, template_pairs
from alerts.notify.http.fields import header_problem, http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import (
    IntegrationReceiver,
    ReceiverKind,
    dedup_key,
    shortened,
    without_empty,
)

API = "https://api.opsgenie.com/"
SERVICE_MANAGEMENT_API = "https://api.atlassian.com/jsm/ops/integration/"
MAX_MESSAGE, MAX_DESCRIPTION = 130, 15_000
RESPONDER_TYPES = frozenset({"team", "teams", "user", "escalation", "schedule"})
SCHEMA = {
    "send_resolved": boolean(True),
    "api_key": secret(inherits="opsgenie_api_key", required=True, problem=header_problem),
    "api_url": url(inherits="opsgenie_api_url"),
    "message": template('{{ template "opsgenie.default.message" . }}'),
    "description": template('{{ template "opsgenie.default.description" . }}'),
    "source": template('{{ template "opsgenie.default.source" . }}'),
    "details": template_pairs(),
    "entity": template(),
    "responders": mappings(
        {"id": template(), "name": template(), "username": template(), "type": template()}
    ),
    "actions": template(),
    "tags": template(),
    "note": template(),
    "priority": template(),
    "update_alerts": boolean(),
    "http_config": http_config(),
}
SERVICE_MANAGEMENT_SCHEMA = {
    **SCHEMA,
    "api_key": secret(inherits="jsm_api_key", required=True, problem=header_problem),
    "api_url": url(SERVICE_MANAGEMENT_API, inherits="jsm_api_url"),
}


@dataclass(frozen=True, repr=False)
class Opsgenie(IntegrationReceiver):
    """Creates the alert of a group, updates it where that is wanted, and closes it."""

    def send(self, message: Message) -> None:
        """Create or close the group's alert. Raises ReceiverError where Opsgenie refuses it."""
        fields = self.integration.rendered(message)
        alias, note = dedup_key(message), without_empty({"source": fields["source"], "note": fields["note"]})
        if not message.firing:
            self._call(fields, f"v2/alerts/{alias}/close?identifierType=alias", note)
            return
        created = alert(fields, alias, message)
        self._call(fields, "v2/alerts", created)
        if fields["update_alerts"]:
            for name in ("message", "description"):
                if name in created:
                    path = f"v2/alerts/{alias}/{name}?identifierType=alias"
                    self._call(fields, path, {name: created[name]}, "PUT")

    def _call(self, fields: Settings, path: str, document: dict[str, Any], method: str = "POST") -> None:
        base = (fields["api_url"] or API).rstrip("/") + "/"
        headers = {"Authorization": f"GenieKey {fields['api_key']}"}
        self.integration.http.send(urljoin(base, path), document, headers, method)


def alert(fields: Settings, alias: str, message: Message) -> dict[str, Any]:
    """The document that creates an alert."""
    return without_empty({
        "alias": alias,
        "message": shortened(fields["message"], MAX_MESSAGE),
        "description": shortened(fields["description"], MAX_DESCRIPTION),
        "details": {**message.common_labels, **fields["details"]},
        "source": fields["source"],
        "responders": [item for given in fields["responders"] for item in _responders(given)],
        "tags": _listed(fields["tags"]),
        "note": fields["note"],
        "priority": fields["priority"],
        "entity": fields["entity"],
        "actions": _listed(fields["actions"]),
    })  # fmt: skip


def _responders(given: Settings) -> list[dict[str, str]]:
    """A responder; the type `teams` stands for a team of each name in a list."""
    if given["type"] == "teams":
        return [{"name": name, "type": "team"} for name in _listed(given["name"])]
    found = without_empty(given)
    return [found] if len(found) > 1 else []


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def problem(settings: Settings) -> str | None:
    """Why a responder is invalid."""
    for given in settings["responders"]:
        if not any(given[name] for name in ("id", "name", "username")):
            return "a responder needs one of id, name and username"
        if "{{" not in given["type"] and given["type"].lower() not in RESPONDER_TYPES:
            return f"a responder's type is one of {', '.join(sorted(RESPONDER_TYPES))}"
    return None


KIND = ReceiverKind(SCHEMA, Opsgenie, problem)
SERVICE_MANAGEMENT_KIND = ReceiverKind(SERVICE_MANAGEMENT_SCHEMA, Opsgenie, problem)
