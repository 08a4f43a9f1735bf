"""Webhook receiver, compatible with Alertmanager's payload version 4."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from alerts.notify.configuration.schema import boolean, duration, integer
from alerts.notify.http.fields import http_config, secret_url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind
from alerts.state import Alert, AlertState

_UNSET = "0001-01-01T00:00:00Z"
SCHEMA = {
    "send_resolved": boolean(True),
    "url": secret_url(required=True),
    "max_alerts": integer(problem=lambda text: "must not be negative" if text.startswith("-") else None),
    "timeout": duration(),
    "http_config": http_config(),
}


def payload(message: Message, max_alerts: int = 0) -> dict[str, Any]:
    """The JSON payload of a message with at most `max_alerts` alerts (0: all); `truncatedAlerts` counts the rest."""
    sent = message.alerts[:max_alerts] if max_alerts else message.alerts
    return {
        "receiver": message.receiver,
        "status": message.status,
        "alerts": [_alert(alert, message) for alert in sent],
        "groupLabels": dict(message.group_labels),
        "commonLabels": message.common_labels,
        "commonAnnotations": message.common_annotations,
        "externalURL": message.external_url,
        "version": "4",
        "groupKey": message.group_key,
        "truncatedAlerts": len(message.alerts) - len(sent),
        "notification_reason": message.reason.value,
    }


def _alert(alert: Alert, message: Message) -> dict[str, Any]:
    over = alert.state is AlertState.RESOLVED
    return {
        "status": "resolved" if over else "firing",
        "labels": dict(sorted(alert.labels.items())),
        "annotations": dict(sorted(alert.annotations.items())),
        "startsAt": _time(alert.fired_at),
        "endsAt": _time(alert.resolved_at) if over else _UNSET,
        "generatorURL": message.generator_urls.get(alert.fingerprint, ""),
        "fingerprint": alert.fingerprint,
    }


def _time(at: float | None) -> str:
    """RFC 3339 with milliseconds, as Go writes it: no trailing zeros."""
    if at is None:
        return _UNSET
    moment = datetime.fromtimestamp(round(at, 3), UTC)
    fraction = f".{moment.microsecond // 1000:03d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, repr=False)
class Webhook(IntegrationReceiver):
    """Posts the payload to a URL."""

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError without a 2xx status."""
        settings, http = self.integration.settings, self.integration.http
        client = http.with_timeout(settings["timeout"]) if settings["timeout"] else http
        client.send(settings["url"], payload(message, settings["max_alerts"]))


KIND = ReceiverKind(SCHEMA, Webhook)
