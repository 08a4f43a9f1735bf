"""Columns of the Alerts page's tables, for each view and width.

The keys are the columns of the tables that `ui.alerting.frames` builds.
"""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from ui.kit import cells, statuses
from ui.kit.cells import Columns, Opener

#: Columns of each view, most important first: beside an alert's detail only the first ones are shown.
VIEW_COLUMNS = {
    "firing": ("severity", "age", "alert", "query", "summary", "app", "acknowledged_by", "notified"),
    "pending": ("severity", "age", "alert", "query", "reason", "app", "summary", "notified"),
    "suppressed": ("severity", "age", "alert", "query", "suppressed_by", "app", "summary", "acknowledged_by"),
    "history": ("severity", "alert", "query", "fired", "duration", "resolved", "app", "summary", "state"),
}
MAX_NARROW_COLUMNS = 5
AGE_LABELS = {"firing": "Firing for", "suppressed": "Firing for", "pending": "Pending for"}


def order(view: str, narrow: bool) -> tuple[str, ...]:
    """The columns of a view; `narrow` beside an alert's detail."""
    return VIEW_COLUMNS[view][:MAX_NARROW_COLUMNS] if narrow else VIEW_COLUMNS[view]


def alerts(view: str, to_alert: Opener, to_query: Opener, narrow: bool) -> Columns:
    """Tables of firing, pending and suppressed alerts."""
    return {
        "severity": cells.badges("Severity", statuses.SEVERITIES.values(), 92),
        "age": cells.span(AGE_LABELS.get(view, "Age"), 100),
        "alert": cells.link("Alert", 190, to_alert, "Select a name to see the alert."),
        "query": cells.link("Query", 150 if narrow else 170, to_query, "Select a name to open its query."),
        "app": cells.text("App", 100),
        "summary": cells.text("Summary", None if narrow else 360),
        "notified": cells.text("Notified", 170),
        "acknowledged_by": cells.text("Acknowledged by", 150),
        "suppressed_by": cells.text("Suppressed by", None if narrow else 300),
        "reason": cells.text("Reason", None if narrow else 260),
    }


def history(zone: tzinfo, to_alert: Opener, to_query: Opener) -> Columns:
    """Table of alerts that fired."""
    return {
        "state": cells.badges("State", statuses.ALERT_STATES.values(), 96),
        "severity": cells.badges("Severity", statuses.SEVERITIES.values(), 92),
        "alert": cells.link("Alert", 190, to_alert, "Select a name to see the alert."),
        "query": cells.link("Query", 170, to_query, "Select a name to open its query."),
        "app": cells.text("App", 100),
        "summary": cells.text("Summary", 330),
        "fired": cells.time("Fired", zone),
        "resolved": cells.time("Resolved", zone),
        "duration": cells.span("Duration", 100),
    }


def silences(zone: tzinfo) -> Columns:
    """Table of expired silences."""
    return {
        "state": cells.badges("State", statuses.SILENCE_STATES.values(), 92),
        "matchers": cells.text("Matchers", 420),
        "comment": cells.text("Comment", 280),
        "by": cells.text("Created by", 160),
        "starts": cells.time("Started", zone),
        "ends": cells.time("Ended", zone),
    }


def notifications(zone: tzinfo) -> Columns:
    """Table of notifications."""
    return {
        "at": cells.time("Time", zone),
        "outcome": cells.badges("Outcome", statuses.OUTCOMES.values(), 112),
        "receiver": cells.text("Receiver", 140),
        "reason": cells.text("Reason", 430),
        "alerts": st.column_config.NumberColumn("Alerts", format="%d", width=70),
        "group": cells.text("Group"),
    }


def rule_statistics() -> Columns:
    """Table of rules that fired."""
    return {
        "severity": cells.badges("Severity", statuses.SEVERITIES.values(), 92),
        "rule": cells.text("Rule", 190),
        "firings": cells.integer("Firings"),
        "queries": cells.integer("Queries"),
        "acknowledged": cells.integer("Acknowledged", 110),
        "useless": cells.integer("Useless"),
        "median": cells.span("Median", 100),
        "total": cells.span("Total", 100),
        "advice": cells.text("Advice", 420),
    }
