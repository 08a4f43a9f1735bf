"""How each table's columns look: words, widths, formats, badge colors. Made for each viewer's time zone.

The pages and `ui.query.panels` call it; the keys are the columns of the tables that `ui.kit.frames` makes.
"""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from ui.kit import cells, fleet_table, statuses
from ui.kit.cells import Columns, Opener


def fleet(opener: Opener) -> Columns:
    return {
        "status": cells.badges("Status", statuses.STATUSES.values(), 106),
        "query": cells.link("Query", 170, opener),
        "alerts": cells.counted_badges("Alerts", fleet_table.alert_badges(), 92),
        "app": cells.text("App", 84),
        "reason": cells.text("Reason", 264),
        "lag_rows": cells.count("Lag rows"),
        "lag_trend": cells.trend("Lag trend", statuses.HEX_COLORS["gray"]),
        "lag": cells.span("Lag"),
        "read": cells.count("Read/s"),
        "batch": cells.seconds("Batch"),
        "batch_trend": cells.trend("Batch trend", statuses.HEX_COLORS["blue"]),
        "state_rows": cells.count("State rows"),
        "age": cells.span("Progress age", 104),
    }


def actions(zone: tzinfo, opener: Opener) -> Columns:
    return {**_actions(zone), "query": cells.link("Query", 170, opener)}


def _actions(zone: tzinfo) -> Columns:
    return {
        "state": cells.badges("State", statuses.ACTION_STATES.values(), 112),
        "action": cells.text("Action", 130),
        "app": cells.text("App", 90),
        "actor": cells.text("By", 120),
        "why": cells.text("Why", 220),
        "outcome": cells.text("Outcome", 320),
        "requested": cells.time("Asked", zone),
        "took": cells.seconds("Took"),
    }


def query_actions(zone: tzinfo) -> Columns:
    """As `actions`, on the page of the one query."""
    return {**_actions(zone), "query": None, "app": None}


def runs(zone: tzinfo) -> Columns:
    return {
        "run": cells.text("Run", 90),
        "started": cells.time("Started", zone),
        "ended": cells.time("Ended", zone),
        "end": cells.text("End", 90),
        "first": st.column_config.NumberColumn("First batch", format="%d", width=90),
        "last": st.column_config.NumberColumn("Last batch", format="%d", width=90),
        "batches": cells.count("Batches"),
        "driver": cells.text("Driver", 90),
        "failure": cells.text("Failure"),
    }


def sources() -> Columns:
    return {
        "source": cells.text("Source", 260),
        "lag_rows": cells.count("Lag rows"),
        "input_rows": cells.count("Input rows", 90),
        "input": cells.count("Read/s", 90),
        "processed": cells.count("Processed/s", 90),
        "start": cells.text("Start offset", 190),
        "end": cells.text("End offset", 190),
        "latest": cells.text("Latest offset", 190),
        "metrics": cells.text("Metrics"),
    }


def changes(zone: tzinfo) -> Columns:
    return {
        "at": cells.time("At", zone),
        "status": cells.badges("Status", statuses.STATUSES.values(), 112),
        "reason": cells.text("Reason", 1000),
    }


def operators() -> Columns:
    return {
        "operator": cells.text("Operator", 220),
        "rows": cells.count("Rows"),
        "updated": cells.count("Updated"),
        "removed": cells.count("Removed"),
        "dropped": cells.count("Too late", 90),
        "memory": st.column_config.NumberColumn("Memory", format="bytes", width=90),
        "commit": st.column_config.NumberColumn("Commit", format="%d ms", width=90),
        "partitions": cells.count("Partitions", 90),
        "metrics": cells.text("Metrics", 600),
    }


def facts(what: str = "Fact") -> Columns:
    return {"fact": cells.text(what, 220), "value": cells.text("Value", 1000)}
