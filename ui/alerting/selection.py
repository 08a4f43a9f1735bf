"""Select alerts for a view, check what the role may do, and build silence requests.

Pure. The Alerts and Rules pages, `ui.alerting.panels` and `ui.alerting.dialogs` use it; the server decides
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from ui.kit import action_checks, units
from ui.kit.markup import visible

Json = Mapping[str, Any]

VIEWS = ("firing", "pending", "suppressed", "history", "silences", "notifications")
#: Periods of History and Notifications, in seconds.
PERIODS = {"1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
#: Durations of a silence to choose from, in seconds; `MORNING` ends when work begins, `UNTIL` asks for an end time.
SILENCE_DURATIONS = {"1h": 3600, "2h": 7200, "4h": 14_400, "8h": 28_800, "1d": 86_400}
MORNING, MORNING_HOUR = "until morning", 8
UNTIL = "until …"
#: Labels that a silence of an alert starts with: this alert of this query.
PREFILLED_LABELS = ("alertname", "app", "query_id")
MAX_COMMENT_CHARS = 500


def suppressed(alert: Json) -> bool:
    """Does it fire without notifications, because of a silence or another alert?"""
    return bool(alert.get("silenced_by") or alert.get("inhibited_by"))


def of_view(alerts: Sequence[Json], view: str) -> list[Json]:
    """The alerts of a view, in the order given."""
    if view == "suppressed":
        return [alert for alert in alerts if alert.get("state") == "firing" and suppressed(alert)]
    if view == "firing":
        return [alert for alert in alerts if alert.get("state") == "firing" and not suppressed(alert)]
    return [alert for alert in alerts if alert.get("state") == view]


def matching(alerts: Sequence[Json], search: str, **fields: Sequence[str]) -> list[Json]:
    """Alerts with one of the values of each field and every word of `search` in their text or labels."""
    wanted = search.lower().split()
    fitting = [
        alert
        for alert in alerts
        if all(not values or (alert.get(field) or "") in values for field, values in fields.items())
    ]
    return [alert for alert in fitting if not wanted or _has_all(wanted, _haystack(alert))]


def _has_all(terms: Sequence[str], text: str) -> bool:
    return all(term in text for term in terms)


def _haystack(alert: Json) -> str:
    labels = (f"{key}={value}" for key, value in (alert.get("labels") or {}).items())
    texts = (alert.get(key) for key in ("name", "query", "server", "app", "reason", "fingerprint", "group"))
    summary = (alert.get("annotations") or {}).get("summary")
    return " ".join(str(part) for part in (*texts, summary, *labels) if part).lower()


def matching_text(items: Sequence[Json], search: str, *keys: str) -> list[Json]:
    """Silences, notifications or rules with every word of `search` in their values of `keys`."""
    wanted = search.lower().split()
    texts = [" ".join(str(item.get(key) or "") for key in keys).lower() for item in items]
    return [item for item, text in zip(items, texts, strict=True) if _has_all(wanted, text)]


def newer_than(notifications: Sequence[Json], seconds: float, now: float) -> list[Json]:
    """The notifications of the last `seconds`."""
    return [entry for entry in notifications if (units.moment(entry.get("at")) or 0.0) >= now - seconds]


def active_since(alert: Json) -> object:
    """When the alert fired; while it is pending, when its condition began to hold."""
    return alert.get("fired_at") or alert.get("active_at")


def role_refusal(role: str | None) -> str | None:
    """Why this token may not acknowledge or silence; None if it may or the role is unknown."""
    return action_checks.role_refusal(role, "Acknowledgements and silences")


def acknowledge_refusal(alert: Json, role: str | None) -> str | None:
    """Why the alert cannot be acknowledged; None if it can."""
    if refusal := role_refusal(role):
        return refusal
    if alert.get("state") != "firing":
        return f"The alert is {alert.get('state')}. Only a firing alert can be acknowledged."
    if known := alert.get("acknowledged"):
        return f"Already acknowledged by {known.get('by')}."
    return None


def matcher(name: str, value: str) -> str:
    """An equality matcher in Prometheus' syntax, on one line whatever the value contains."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'


def prefilled_matchers(labels: Mapping[str, str]) -> str:
    """The matchers that a silence of this alert starts with, one per line."""
    return "\n".join(matcher(name, labels[name]) for name in PREFILLED_LABELS if labels.get(name))


def matcher_lines(text: str) -> tuple[str, ...]:
    """The matchers in a text, one per line."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def next_morning(now: datetime) -> datetime:
    """The next 08:00 in the time zone of `now`."""
    morning = now.replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0)
    return morning if morning > now else morning + timedelta(days=1)


def silence_request(
    matchers: Sequence[str], duration: str, until: datetime | None, comment: str
) -> dict[str, Any]:
    """The body of a silence that starts now.

    `duration` is a key of SILENCE_DURATIONS, otherwise the silence ends at `until`.
    """
    seconds = SILENCE_DURATIONS.get(duration)
    ends = None if seconds or until is None else until.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {
        "matchers": list(matchers),
        "starts_at": None,
        "ends_at": ends,
        "duration_seconds": seconds,
        "comment": comment,
    }


def runbook_link(url: object) -> str | None:
    """The URL if it is safe to follow: http or https, with a host, without hidden characters."""
    if not isinstance(url, str) or url != visible(url) or any(char.isspace() for char in url):
        return None
    try:
        parts = urlsplit(url)
        return url if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:  # not a URL
        return None


def rule_state(rule: Json) -> str:
    """The rule's state as a key of `statuses.RULE_STATES`; a failing rule is `failing` first of all."""
    if rule.get("health") == "err":
        return "failing"
    return "record" if rule.get("kind") == "record" else str(rule.get("state") or "inactive")
