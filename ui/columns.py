"""How each table's columns look: words, widths, formats, badge colours. Made for each viewer's time zone.

The pages and `ui.panels` call it; the keys are the columns of the tables that `ui.frames` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Any

import streamlit as st

from ui import fleet_table, statuses
from ui.statuses import Look

Columns = dict[str, Any]


Opener = tuple[str, Callable[..., None], tuple[Any, ...]]  # the click's key, what to call, with what


def fleet(opener: Opener) -> Columns:
    return {
        "status": _badges("Status", statuses.STATUSES.values(), 106),
        "query": _link("Query", 170, opener),
        "alerts": _counted_badges("Alerts", fleet_table.alert_badges(), 92),
        "app": _text("App", 84),
        "reason": _text("Reason", 264),
        "lag_rows": _count("Lag rows"),
        "lag_trend": _trend("Lag trend", statuses.HEX["gray"]),
        "lag": _span("Lag"),
        "read": _count("Read/s"),
        "batch": _seconds("Batch"),
        "batch_trend": _trend("Batch trend", statuses.HEX["blue"]),
        "state_rows": _count("State rows"),
        "age": _span("Progress age", 104),
    }


def actions(zone: tzinfo, opener: Opener) -> Columns:
    return {**_actions(zone), "query": _link("Query", 170, opener)}


def _actions(zone: tzinfo) -> Columns:
    return {
        "state": _badges("State", statuses.ACTION_STATES.values(), 112),
        "action": _text("Action", 130),
        "app": _text("App", 90),
        "actor": _text("By", 120),
        "why": _text("Why", 220),
        "outcome": _text("Outcome", 320),
        "requested": _time("Asked", zone),
        "took": _seconds("Took"),
    }


def query_actions(zone: tzinfo) -> Columns:
    """As `actions`, on the page of the one query."""
    return {**_actions(zone), "query": None, "app": None}


def runs(zone: tzinfo) -> Columns:
    return {
        "run": _text("Run", 90),
        "started": _time("Started", zone),
        "ended": _time("Ended", zone),
        "end": _text("End", 90),
        "first": st.column_config.NumberColumn("First batch", format="%d", width=90),
        "last": st.column_config.NumberColumn("Last batch", format="%d", width=90),
        "batches": _count("Batches"),
        "driver": _text("Driver", 90),
        "failure": _text("Failure"),
    }


def sources() -> Columns:
    return {
        "source": _text("Source", 260),
        "lag_rows": _count("Lag rows"),
        "input_rows": _count("Input rows", 90),
        "input": _count("Read/s", 90),
        "processed": _count("Processed/s", 90),
        "start": _text("Start offset", 190),
        "end": _text("End offset", 190),
        "latest": _text("Latest offset", 190),
        "metrics": _text("Metrics"),
    }


def changes(zone: tzinfo) -> Columns:
    return {
        "at": _time("At", zone),
        "status": _badges("Status", statuses.STATUSES.values(), 112),
        "reason": _text("Reason", 1000),
    }


def operators() -> Columns:
    return {
        "operator": _text("Operator", 220),
        "rows": _count("Rows"),
        "updated": _count("Updated"),
        "removed": _count("Removed"),
        "dropped": _count("Too late", 90),
        "memory": st.column_config.NumberColumn("Memory", format="bytes", width=90),
        "commit": st.column_config.NumberColumn("Commit", format="%d ms", width=90),
        "partitions": _count("Partitions", 90),
        "metrics": _text("Metrics", 600),
    }


def facts(what: str = "Fact") -> Columns:
    return {"fact": _text(what, 220), "value": _text("Value", 1000)}


def _badges(label: str, looks: Iterable[Look], width: int) -> Any:
    return _counted_badges(label, {look.word: look.hex for look in looks}, width)


def _counted_badges(label: str, words: dict[str, str], width: int) -> Any:
    """Words with their colours."""
    return st.column_config.MultiselectColumn(
        label, options=list(words), color=list(words.values()), width=width
    )


def _link(label: str, width: int, opener: Opener) -> Any:
    """A name that leads to its query, by click or by Enter."""
    key, call, args = opener
    return st.column_config.ButtonColumn(
        label,
        width=width,
        type="tertiary",
        alignment="left",
        help="Press a name to open its query.",
        key=key,
        on_click=call,
        args=args,
    )


def _text(label: str, width: int | None = None) -> Any:
    return st.column_config.TextColumn(label, width=width)


def _count(label: str, width: int = 80) -> Any:
    return st.column_config.NumberColumn(label, format="compact", width=width)


def _seconds(label: str, width: int = 80) -> Any:
    return st.column_config.NumberColumn(label, format="%.1f s", width=width)


def _span(label: str, width: int = 90) -> Any:
    return st.column_config.NumberColumn(label, format="localized", width=width, alignment="right")


def _trend(title: str, colour: str, width: int = 78) -> Any:
    return st.column_config.AreaChartColumn(title, color=colour, y_min=0, width=width)


def _time(label: str, zone: tzinfo, width: int = 150) -> Any:
    return st.column_config.DatetimeColumn(
        label, format="YYYY-MM-DD HH:mm:ss", timezone=str(zone), width=width
    )
