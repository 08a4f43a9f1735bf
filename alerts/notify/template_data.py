"""Data that templates of a message see: Alertmanager's fields, and links and facts of each alert.

Beyond Alertmanager's, an alert has `QueryURL`, `IncidentURL`, `SilenceURL` and `Facts` (for example `Probable cause`, `Last action`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from alerts.notify.message import AlertContext, Message
from alerts.state import Alert, AlertState
from alerts.templates.values import AlertList, KeyValues

_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)


def template_data(message: Message) -> dict[str, Any]:
    """The data of a message."""
    return {
        "Receiver": message.receiver,
        "Status": message.status,
        "Alerts": AlertList(_alert(alert, message) for alert in message.alerts),
        "GroupLabels": KeyValues(message.group_labels),
        "CommonLabels": KeyValues(message.common_labels),
        "CommonAnnotations": KeyValues(message.common_annotations),
        "ExternalURL": message.external_url,
        "GroupKey": message.group_key,
        "NotificationReason": message.reason.value,
    }


def _alert(alert: Alert, message: Message) -> dict[str, Any]:
    context = message.contexts.get(alert.fingerprint, AlertContext())
    return {
        "Status": "resolved" if alert.state is AlertState.RESOLVED else "firing",
        "Labels": KeyValues(alert.labels),
        "Annotations": KeyValues(alert.annotations),
        "StartsAt": _time(alert.fired_at),
        "EndsAt": _time(alert.resolved_at),
        "GeneratorURL": message.generator_urls.get(alert.fingerprint, ""),
        "Fingerprint": alert.fingerprint,
        "QueryURL": context.query,
        "IncidentURL": context.incident,
        "SilenceURL": context.silence,
        "Facts": KeyValues(context.facts),
    }


def _time(at: float | None) -> datetime:
    return _ZERO_TIME if at is None else datetime.fromtimestamp(at, UTC)
