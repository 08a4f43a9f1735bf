"""Alerts, silences and notifications as DataFrames.

Pure: no Streamlit, no clock. An unknown value stays missing; text from others passes through `markup`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ui.alerting import selection
from ui.kit import statuses, units
from ui.kit.frames import app_of, timestamp
from ui.kit.markup import no_icon, one_line

Json = Mapping[str, Any]

ALERT_COLUMNS = [
    "severity",
    "age",
    "alert",
    "query",
    "app",
    "summary",
    "notified",
    "acknowledged_by",
    "suppressed_by",
    "reason",
]
HISTORY_COLUMNS = ["state", "severity", "alert", "query", "app", "summary", "fired", "resolved", "duration"]
SILENCE_COLUMNS = ["state", "matchers", "comment", "by", "starts", "ends"]
NOTIFICATION_COLUMNS = ["at", "outcome", "receiver", "reason", "alerts", "group"]


def name(alert: Json) -> str:
    """The alert's name."""
    return no_icon(alert.get("name") or "unnamed alert")


def query(alert: Json) -> str:
    """Name of the alert's query, else the first eight characters of its id; empty if it has none."""
    return no_icon(alert.get("query") or str(alert.get("query_id") or "")[:8])


def summary(alert: Json) -> str:
    """The summary annotation, else the description."""
    annotations = alert.get("annotations") or {}
    return one_line(annotations.get("summary") or annotations.get("description") or "")


def notified(alert: Json, silences: Mapping[str, Json], now: float) -> str:
    """Who was notified last and how long ago, or why no notification was sent. `silences` by id."""
    if last := alert.get("notified"):
        return f"{one_line(last.get('receiver') or 'unknown receiver')}, {ago(last.get('at'), now)}"
    if causes := suppressed_by(alert, silences):
        return f"Not notified: {causes}"
    if not (receivers := ", ".join(one_line(receiver) for receiver in alert.get("receivers") or ())):
        return "Not notified: no receiver is configured."
    if not alert.get("deliverable", True):
        return f"Not notified: {receivers} has no integration."
    return f"{receivers}, once it fires" if alert.get("state") == "pending" else f"Not yet: {receivers}"


def acknowledged_by(alert: Json) -> str:
    """Who acknowledged the alert."""
    return one_line((alert.get("acknowledged") or {}).get("by") or "")


def suppressed_by(alert: Json, silences: Mapping[str, Json]) -> str:
    """The silences and alerts that suppress it; `silences` by id, for who created them."""
    created = [_silence(str(key), silences) for key in alert.get("silenced_by") or ()]
    sources = [one_line(other.get("name") or "?") for other in alert.get("inhibited_by") or ()]
    silenced = [f"silenced by {', '.join(created)}"] if created else []
    inhibited = [f"inhibited by {', '.join(sources)}"] if sources else []
    return ", ".join([*silenced, *inhibited])


def _silence(key: str, silences: Mapping[str, Json]) -> str:
    known = silences.get(key)
    if known is None:
        return f"silence {one_line(key[:8])}"
    comment = f": {one_line(known['comment'])}" if known.get("comment") else ""
    return f"{one_line(known.get('created_by') or 'an unknown person')}{comment}"


def ago(value: object, now: float) -> str:
    """`just now`, `2 min ago`, `3 h ago`."""
    seconds = units.since(value, now)
    return (
        units.UNKNOWN if seconds is None else f"{rounded_span(seconds)} ago" if seconds >= 5 else "just now"
    )


def rounded_span(seconds: float) -> str:
    """A duration in its largest unit only."""
    return " ".join(units.span(round(seconds)).split()[:2])


def alerts(items: Sequence[Json], silences: Mapping[str, Json], now: float) -> pd.DataFrame:
    """One row per firing or pending alert, in the order given. `silences` by id."""
    rows = [
        (
            [statuses.severity(item.get("severity")).label],
            units.since(selection.active_since(item), now),
            name(item),
            query(item),
            app_of(item),
            summary(item),
            notified(item, silences, now),
            acknowledged_by(item),
            suppressed_by(item, silences),
            one_line(item.get("reason") or ""),
        )
        for item in items
    ]
    return _with_spans(pd.DataFrame(rows, columns=ALERT_COLUMNS), "age")


def history(items: Sequence[Json], now: float) -> pd.DataFrame:
    """One row per episode; the duration of a firing alert runs on."""
    rows = [
        (
            [statuses.alert_state(item.get("state")).label],
            [statuses.severity(item.get("severity")).label],
            name(item),
            query(item),
            app_of(item),
            summary(item),
            timestamp(item.get("fired_at")),
            timestamp(item.get("resolved_at")),
            _duration(item, now),
        )
        for item in items
    ]
    return _with_spans(pd.DataFrame(rows, columns=HISTORY_COLUMNS), "duration")


def _duration(alert: Json, now: float) -> float | None:
    ended = units.moment(alert.get("resolved_at"))
    return units.since(alert.get("fired_at"), now if ended is None else ended)


def _with_spans(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    frame[column] = pd.to_timedelta(frame[column].astype(float).round(), unit="s")
    return frame


def silences(items: Sequence[Json]) -> pd.DataFrame:
    """One row per silence."""
    rows = [
        (
            [statuses.silence_state(item.get("state")).label],
            one_line(item.get("text") or ""),
            one_line(item.get("comment") or ""),
            one_line(item.get("created_by") or ""),
            timestamp(item.get("starts_at")),
            timestamp(item.get("ends_at")),
        )
        for item in items
    ]
    return pd.DataFrame(rows, columns=SILENCE_COLUMNS)


def notifications(items: Sequence[Json]) -> pd.DataFrame:
    """One row per notification that was sent, failed or suppressed, with the reason."""
    rows = [
        (
            timestamp(item.get("at")),
            [statuses.outcome(item.get("outcome")).label],
            one_line(item.get("receiver") or ""),
            one_line(item.get("reason") or ""),
            units.number(item.get("alerts")),
            one_line(item.get("group_key") or ""),
        )
        for item in items
    ]
    return pd.DataFrame(rows, columns=NOTIFICATION_COLUMNS)


def rule_statistics(items: Sequence[Json]) -> pd.DataFrame:
    """One row per rule that fired."""
    counts = ("firings", "queries", "acknowledged", "useless")
    rows = [
        (
            [statuses.severity(item.get("severity")).label],
            one_line(item.get("rule") or ""),
            *(units.number(item.get(name)) for name in counts),
            units.number(item.get("median_seconds")),
            units.number(item.get("total_seconds")),
            one_line(item.get("advice") or ""),
        )
        for item in items
    ]
    frame = pd.DataFrame(rows, columns=["severity", "rule", *counts, "median", "total", "advice"])
    return _with_spans(_with_spans(frame, "median"), "total")
