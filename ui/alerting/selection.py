"""Alerts as the page asks for them: which belong to a view, who may do what, what a silence would say. Pure.

The Alerts and Rules pages, `ui.alerting.panels` and `ui.alerting.dialogs` call it; the server has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from ui.kit import units
from ui.kit.markup import visible

Json = Mapping[str, Any]

VIEWS = ("firing", "pending", "silenced", "history", "silences", "notifications")
#: How far back History and Notifications look, in seconds.
PERIODS = {"1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
#: How long a silence may last by one click, in seconds; `UNTIL` asks for a moment.
SILENCE_DURATIONS = {"1h": 3600, "4h": 14_400, "1d": 86_400}
UNTIL = "until …"
#: The labels that a silence of an alert starts with: this trouble of this query.
PREFILLED_LABELS = ("alertname", "app", "query_id")
MAX_COMMENT_CHARS = 500


def suppressed(alert: Json) -> bool:
    """Does it fire without anybody being told, because of a silence or of another alert?"""
    return bool(alert.get("silenced_by") or alert.get("inhibited_by"))


def of_view(alerts: Sequence[Json], view: str) -> list[Json]:
    """The alerts of one view, in the order given."""
    if view == "silenced":
        return [one for one in alerts if one.get("state") == "firing" and suppressed(one)]
    if view == "firing":
        return [one for one in alerts if one.get("state") == "firing" and not suppressed(one)]
    return [one for one in alerts if one.get("state") == view]


def matching(alerts: Sequence[Json], words: str, **fields: Sequence[str]) -> list[Json]:
    """Those with one of the values of each field given, and every word somewhere in their texts or labels."""
    wanted = words.lower().split()
    fitting = [
        one
        for one in alerts
        if all(not values or (one.get(field) or "") in values for field, values in fields.items())
    ]
    return [one for one in fitting if not wanted or _has_all(wanted, _haystack(one))]


def _has_all(words: Sequence[str], text: str) -> bool:
    return all(word in text for word in words)


def _haystack(alert: Json) -> str:
    labels = (f"{key}={value}" for key, value in (alert.get("labels") or {}).items())
    texts = (alert.get(key) for key in ("name", "query", "app", "reason", "fingerprint", "group"))
    summary = (alert.get("annotations") or {}).get("summary")
    return " ".join(str(part) for part in (*texts, summary, *labels) if part).lower()


def matching_text(items: Sequence[Json], words: str, *keys: str) -> list[Json]:
    """Silences, notifications or rules with every word in one of their texts."""
    wanted = words.lower().split()
    texts = [" ".join(str(item.get(key) or "") for key in keys).lower() for item in items]
    return [item for item, text in zip(items, texts, strict=True) if _has_all(wanted, text)]


def newer_than(notes: Sequence[Json], seconds: float, now: float) -> list[Json]:
    """The notifications of the last `seconds`."""
    return [one for one in notes if (units.moment(one.get("at")) or 0.0) >= now - seconds]


def active_since(alert: Json) -> object:
    """From when its age is counted: when it fired, or, while it is pending, when its condition began to hold."""
    return alert.get("fired_at") or alert.get("active_at")


def role_refusal(role: str | None) -> str | None:
    """Why this token may not acknowledge or silence; None when it may, or when the server will tell."""
    if role in (None, "operator", "admin"):
        return None
    return f"The token of this page is a {role}'s; this needs an operator's."


def acknowledge_refusal(alert: Json, role: str | None) -> str | None:
    if refusal := role_refusal(role):
        return refusal
    if alert.get("state") != "firing":
        return f"The alert is {alert.get('state')}; only one that fires can be acknowledged."
    if known := alert.get("acknowledged"):
        return f"{known.get('by')} works on it already."
    return None


def matcher(name: str, value: str) -> str:
    """One equality as Prometheus writes it, on one line whatever the value holds."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'


def prefilled_matchers(labels: Mapping[str, str]) -> str:
    """The matchers that a silence of this alert starts with, one a line."""
    return "\n".join(matcher(name, labels[name]) for name in PREFILLED_LABELS if labels.get(name))


def matcher_lines(text: str) -> tuple[str, ...]:
    """The matchers out of what somebody typed, one a line."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def silence_request(
    matchers: Sequence[str], lasting: str, until: datetime | None, comment: str, actor: str | None
) -> dict[str, Any]:
    """The body of a silence that starts now: `lasting` is a key of DURATIONS, else it ends at `until`."""
    seconds = SILENCE_DURATIONS.get(lasting)
    ends = None if seconds or until is None else until.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {
        "matchers": list(matchers),
        "starts_at": None,
        "ends_at": ends,
        "duration_seconds": seconds,
        "comment": comment,
        "actor": actor,
    }


def runbook_link(url: object) -> str | None:
    """The address if a click may lead there: http or https, a host, and nothing hidden in it."""
    if not isinstance(url, str) or url != visible(url) or any(char.isspace() for char in url):
        return None
    try:
        parts = urlsplit(url)
        return url if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:  # not even the form of an address
        return None


def rule_state(rule: Json) -> str:
    """How the rule stands, in one word of `statuses.RULE_STATES`: a broken rule first of all."""
    if rule.get("health") == "err":
        return "failing"
    return "record" if rule.get("kind") == "record" else str(rule.get("state") or "inactive")
