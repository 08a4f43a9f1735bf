"""Splunk On-Call (VictorOps) receiver: the REST endpoint, one incident for each group of alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from alerts.notify.configuration.schema import (
    Settings,
    boolean,
    required,
    secret,
    template,
    template_pairs,
)
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import (
    IntegrationReceiver,
    ReceiverKind,
    dedup_key,
    shortened,
    without_empty,
)

API = "https://alert.victorops.com/integrations/generic/20131114/alert/"
MAX_STATE_MESSAGE = 20_480
MESSAGE_TYPES = ("CRITICAL", "WARNING", "INFO")
#: Fields of the API, which custom fields must not replace.
RESERVED = (
    "routing_key",
    "message_type",
    "state_message",
    "entity_display_name",
    "monitoring_tool",
    "entity_id",
    "entity_state",
)
SCHEMA = {
    "send_resolved": boolean(True),
    "api_key": secret(inherits="victorops_api_key", required=True),
    "api_url": url(inherits="victorops_api_url"),
    "routing_key": required(template()),
    "message_type": template("CRITICAL"),
    "entity_display_name": template('{{ template "victorops.default.entity_display_name" . }}'),
    "state_message": template('{{ template "victorops.default.state_message" . }}'),
    "monitoring_tool": template('{{ template "victorops.default.monitoring_tool" . }}'),
    "custom_fields": template_pairs(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class VictorOps(IntegrationReceiver):
    """Opens or recovers the incident of a group."""

    def send(self, message: Message) -> None:
        """Post an alert. Raises ReceiverError where the service refuses it."""
        fields = self.integration.rendered(message)
        base = (fields["api_url"] or API).rstrip("/")
        address = f"{base}/{quote(fields['api_key'], safe='')}/{quote(fields['routing_key'], safe='')}"
        self.integration.http.send(address, document(fields, message))


def document(fields: Settings, message: Message) -> dict[str, Any]:
    """The JSON document of an alert."""
    kind = fields["message_type"].upper()
    firing = kind if kind in MESSAGE_TYPES else "CRITICAL"
    return without_empty({
        **fields["custom_fields"],
        "message_type": firing if message.firing else "RECOVERY",
        "entity_id": dedup_key(message),
        "entity_display_name": fields["entity_display_name"],
        "state_message": shortened(fields["state_message"], MAX_STATE_MESSAGE),
        "monitoring_tool": fields["monitoring_tool"],
    })  # fmt: skip


def problem(settings: Settings) -> str | None:
    """Why a custom field is invalid."""
    taken = [name for name in settings["custom_fields"] if name in RESERVED]
    return f"custom_fields: {taken[0]} is a field of the API" if taken else None


KIND = ReceiverKind(SCHEMA, VictorOps, problem)
