"""How the columns of the Alerts page's tables look, for each view and each width. Made for a viewer's time zone.

The Alerts page calls it; the keys are the columns of the tables that `ui.alerting_frames` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Any

import streamlit as st

from ui import statuses
from ui.statuses import Look

Columns = dict[str, Any]
Opener = tuple[str, Callable[..., None], tuple[Any, ...]]  # the click's key, what to call, with what

#: The columns of each view, most wanted first: beside an alert's detail there is room for the first five.
ORDER = {
    "firing": ("severity", "age", "alert", "query", "summary", "app", "works", "told"),
    "pending": ("severity", "age", "alert", "query", "reason", "app", "summary", "told"),
    "silenced": ("severity", "age", "alert", "query", "muted", "app", "summary", "works"),
    "history": ("severity", "alert", "query", "fired", "lasted", "resolved", "app", "summary", "state"),
}
NARROW = 5
AGES = {"firing": "Firing for", "silenced": "Firing for", "pending": "Holds for"}


def order(view: str, narrow: bool) -> tuple[str, ...]:
    return ORDER[view][:NARROW] if narrow else ORDER[view]


def alerts(view: str, to_alert: Opener, to_query: Opener, narrow: bool) -> Columns:
    return {
        "severity": _badges("Severity", statuses.SEVERITIES.values(), 92),
        "age": _span(AGES.get(view, "For")),
        "alert": _link("Alert", 190, to_alert, "Press a name to see the alert."),
        "query": _link("Query", 150 if narrow else 170, to_query, "Press a name to open its query."),
        "app": _text("App", 100),
        "summary": _text("Summary", None if narrow else 360),
        "told": _text("Told", 170),
        "works": _text("Acknowledged by", 150),
        "muted": _text("Muted by", None if narrow else 300),
        "reason": _text("Reason", None if narrow else 260),
    }


def history(zone: tzinfo, to_alert: Opener, to_query: Opener) -> Columns:
    return {
        "state": _badges("State", statuses.ALERT_STATES.values(), 96),
        "severity": _badges("Severity", statuses.SEVERITIES.values(), 92),
        "alert": _link("Alert", 190, to_alert, "Press a name to see the alert."),
        "query": _link("Query", 170, to_query, "Press a name to open its query."),
        "app": _text("App", 100),
        "summary": _text("Summary", 330),
        "fired": _time("Fired", zone),
        "resolved": _time("Resolved", zone),
        "lasted": _span("Lasted"),
    }


def silences(zone: tzinfo) -> Columns:
    return {
        "state": _badges("State", statuses.SILENCE_STATES.values(), 92),
        "matchers": _text("Matchers", 420),
        "comment": _text("Comment", 280),
        "by": _text("By", 160),
        "starts": _time("Started", zone),
        "ends": _time("Ended", zone),
    }


def notes(zone: tzinfo) -> Columns:
    return {
        "at": _time("At", zone),
        "outcome": _badges("Outcome", statuses.OUTCOMES.values(), 96),
        "receiver": _text("Receiver", 140),
        "words": _text("Why", 430),
        "alerts": st.column_config.NumberColumn("Alerts", format="%d", width=70),
        "group": _text("Group"),
    }


def _badges(label: str, looks: Iterable[Look], width: int) -> Any:
    words = {look.word: look.hex for look in looks}
    return st.column_config.MultiselectColumn(
        label, options=list(words), color=list(words.values()), width=width
    )


def _link(label: str, width: int, opener: Opener, tip: str) -> Any:
    key, call, args = opener
    return st.column_config.ButtonColumn(
        label, width=width, type="tertiary", alignment="left", help=tip, key=key, on_click=call, args=args
    )


def _text(label: str, width: int | None = None) -> Any:
    return st.column_config.TextColumn(label, width=width)


def _span(label: str) -> Any:
    return st.column_config.NumberColumn(label, format="localized", width=100, alignment="right")


def _time(label: str, zone: tzinfo) -> Any:
    return st.column_config.DatetimeColumn(label, format="YYYY-MM-DD HH:mm:ss", timezone=str(zone), width=150)
