"""Alerts, silences and notifications as DataFrames. Pure: no Streamlit, no clock of its own.

The Alerts page calls it. What is not known stays missing; text from others passes through `markup`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ui.alerting import selection
from ui.kit import statuses, units
from ui.kit.frames import timestamp
from ui.kit.markup import no_icon, one_line

Json = Mapping[str, Any]

ALERT_COLUMNS = ["severity", "age", "alert", "query", "app", "summary", "told", "works", "muted", "reason"]
HISTORY_COLUMNS = ["state", "severity", "alert", "query", "app", "summary", "fired", "resolved", "lasted"]
SILENCE_COLUMNS = ["state", "matchers", "comment", "by", "starts", "ends"]
NOTIFICATION_COLUMNS = ["at", "outcome", "receiver", "words", "alerts", "group"]


def name(alert: Json) -> str:
    return no_icon(alert.get("name") or "an alert without a name")


def query(alert: Json) -> str:
    """The name of its query, else the first eight characters of its id; empty for an alert of none."""
    return no_icon(alert.get("query") or str(alert.get("query_id") or "")[:8])


def summary(alert: Json) -> str:
    annotations = alert.get("annotations") or {}
    return one_line(annotations.get("summary") or annotations.get("description") or "")


def notified(alert: Json, now: float) -> str:
    """Who was told last and how long ago; else that nobody was, and who will be."""
    if note := alert.get("notified"):
        return f"{one_line(note.get('receiver') or 'somebody')}, {ago(note.get('at'), now)}"
    if alert.get("state") == "pending":
        return f"{receivers(alert)}, once it fires"
    return "nobody: muted" if selection.suppressed(alert) else f"not yet: {receivers(alert)}"


def receivers(alert: Json) -> str:
    return ", ".join(one_line(receiver) for receiver in alert.get("receivers") or ()) or "nobody"


def acknowledged_by(alert: Json) -> str:
    """Who acknowledged it."""
    return one_line((alert.get("acknowledged") or {}).get("by") or "")


def suppressed_by(alert: Json, silences: Mapping[str, Json]) -> str:
    """By which silences and alerts; `silences` by id, for who made them."""
    made = [_silence_words(str(key), silences) for key in alert.get("silenced_by") or ()]
    causes = [f"{one_line(other.get('name') or '?')} fires" for other in alert.get("inhibited_by") or ()]
    return ", ".join([*made, *causes])


def _silence_words(key: str, silences: Mapping[str, Json]) -> str:
    known = silences.get(key)
    if known is None:
        return f"silence {one_line(key[:8])}"
    comment = f": {one_line(known['comment'])}" if known.get("comment") else ""
    return f"{one_line(known.get('created_by') or 'somebody')}{comment}"


def ago(value: object, now: float) -> str:
    """`just now`, `2 min ago`, `3 h ago`."""
    seconds = units.since(value, now)
    return (
        units.UNKNOWN if seconds is None else f"{rounded_span(seconds)} ago" if seconds >= 5 else "just now"
    )


def rounded_span(seconds: float) -> str:
    """A span in its largest unit alone."""
    return " ".join(units.span(round(seconds)).split()[:2])


def alerts(items: Sequence[Json], silences: Mapping[str, Json], now: float) -> pd.DataFrame:
    """One row an alert that fires or is pending, in the order given. `silences` by id."""
    rows = [
        (
            [statuses.severity(one.get("severity")).word],
            units.since(selection.active_since(one), now),
            name(one),
            query(one),
            one_line(one.get("app") or ""),
            summary(one),
            notified(one, now),
            acknowledged_by(one),
            suppressed_by(one, silences),
            one_line(one.get("reason") or ""),
        )
        for one in items
    ]
    return _with_spans(pd.DataFrame(rows, columns=ALERT_COLUMNS), "age")


def history(items: Sequence[Json], now: float) -> pd.DataFrame:
    """One row an episode; `lasted` runs on while it fires."""
    rows = [
        (
            [statuses.alert_state(one.get("state")).word],
            [statuses.severity(one.get("severity")).word],
            name(one),
            query(one),
            one_line(one.get("app") or ""),
            summary(one),
            timestamp(one.get("fired_at")),
            timestamp(one.get("resolved_at")),
            _lasted(one, now),
        )
        for one in items
    ]
    return _with_spans(pd.DataFrame(rows, columns=HISTORY_COLUMNS), "lasted")


def _lasted(alert: Json, now: float) -> float | None:
    ended = units.moment(alert.get("resolved_at"))
    return units.since(alert.get("fired_at"), now if ended is None else ended)


def _with_spans(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    frame[column] = pd.to_timedelta(frame[column].astype(float).round(), unit="s")
    return frame


def silences(items: Sequence[Json]) -> pd.DataFrame:
    rows = [
        (
            [statuses.silence_state(one.get("state")).word],
            one_line(one.get("text") or ""),
            one_line(one.get("comment") or ""),
            one_line(one.get("created_by") or ""),
            timestamp(one.get("starts_at")),
            timestamp(one.get("ends_at")),
        )
        for one in items
    ]
    return pd.DataFrame(rows, columns=SILENCE_COLUMNS)


def notifications(items: Sequence[Json]) -> pd.DataFrame:
    """One row a notification that was sent, failed, or was held back, with the reason."""
    rows = [
        (
            timestamp(one.get("at")),
            [statuses.outcome(one.get("outcome")).word],
            one_line(one.get("receiver") or ""),
            one_line(one.get("words") or ""),
            units.number(one.get("alerts")),
            one_line(one.get("group_key") or ""),
        )
        for one in items
    ]
    return pd.DataFrame(rows, columns=NOTIFICATION_COLUMNS)
