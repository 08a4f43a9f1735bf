"""How the columns of the Alerts page's tables look, for each view and each width. Made for a viewer's time zone.

The Alerts page calls it; the keys are the columns of the tables that `ui.alerting.frames` makes.
"""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from ui.kit import cells, statuses
from ui.kit.cells import Columns, Opener

#: The columns of each view, most wanted first: beside an alert's detail there is room for the first five.
VIEW_COLUMNS = {
    "firing": ("severity", "age", "alert", "query", "summary", "app", "works", "told"),
    "pending": ("severity", "age", "alert", "query", "reason", "app", "summary", "told"),
    "silenced": ("severity", "age", "alert", "query", "muted", "app", "summary", "works"),
    "history": ("severity", "alert", "query", "fired", "lasted", "resolved", "app", "summary", "state"),
}
MAX_NARROW_COLUMNS = 5
AGE_LABELS = {"firing": "Firing for", "silenced": "Firing for", "pending": "Holds for"}


def order(view: str, narrow: bool) -> tuple[str, ...]:
    return VIEW_COLUMNS[view][:MAX_NARROW_COLUMNS] if narrow else VIEW_COLUMNS[view]


def alerts(view: str, to_alert: Opener, to_query: Opener, narrow: bool) -> Columns:
    return {
        "severity": cells.badges("Severity", statuses.SEVERITIES.values(), 92),
        "age": cells.span(AGE_LABELS.get(view, "For"), 100),
        "alert": cells.link("Alert", 190, to_alert, "Press a name to see the alert."),
        "query": cells.link("Query", 150 if narrow else 170, to_query, "Press a name to open its query."),
        "app": cells.text("App", 100),
        "summary": cells.text("Summary", None if narrow else 360),
        "told": cells.text("Told", 170),
        "works": cells.text("Acknowledged by", 150),
        "muted": cells.text("Muted by", None if narrow else 300),
        "reason": cells.text("Reason", None if narrow else 260),
    }


def history(zone: tzinfo, to_alert: Opener, to_query: Opener) -> Columns:
    return {
        "state": cells.badges("State", statuses.ALERT_STATES.values(), 96),
        "severity": cells.badges("Severity", statuses.SEVERITIES.values(), 92),
        "alert": cells.link("Alert", 190, to_alert, "Press a name to see the alert."),
        "query": cells.link("Query", 170, to_query, "Press a name to open its query."),
        "app": cells.text("App", 100),
        "summary": cells.text("Summary", 330),
        "fired": cells.time("Fired", zone),
        "resolved": cells.time("Resolved", zone),
        "lasted": cells.span("Lasted", 100),
    }


def silences(zone: tzinfo) -> Columns:
    return {
        "state": cells.badges("State", statuses.SILENCE_STATES.values(), 92),
        "matchers": cells.text("Matchers", 420),
        "comment": cells.text("Comment", 280),
        "by": cells.text("By", 160),
        "starts": cells.time("Started", zone),
        "ends": cells.time("Ended", zone),
    }


def notifications(zone: tzinfo) -> Columns:
    return {
        "at": cells.time("At", zone),
        "outcome": cells.badges("Outcome", statuses.OUTCOMES.values(), 96),
        "receiver": cells.text("Receiver", 140),
        "words": cells.text("Why", 430),
        "alerts": st.column_config.NumberColumn("Alerts", format="%d", width=70),
        "group": cells.text("Group"),
    }
