"""The tables of the Alerts page, one a view, and what a click on a name does.

`ui/app_pages/alerts.py` calls them; rows come from `ui.alerting.frames`, looks from `ui.alerting.columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.alerting import columns, frames, panels
from ui.kit import widgets

Json = Mapping[str, Any]


def alerts(view: str, items: Sequence[Json], silences: Mapping[str, Json], narrow: bool, now: float) -> None:
    """Firing, pending or silenced alerts; `narrow` beside an alert's detail."""
    st.dataframe(
        frames.alerts(items, silences, now),
        key=f"{view}_table",
        column_config=columns.alerts(view, _to_alert(items), _to_query(items), narrow),
        column_order=columns.order(view, narrow),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt=f"Alerts, {view}, worst first; press a name to see the alert",
    )


def history(items: Sequence[Json], narrow: bool, now: float) -> None:
    st.dataframe(
        frames.history(items, now),
        key="history_table",
        column_config=columns.history(widgets.zone(), _to_alert(items), _to_query(items)),
        column_order=columns.order("history", narrow),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Alerts that fired, newest first; press a name to see the alert",
    )


def notifications(items: Sequence[Json]) -> None:
    st.dataframe(
        frames.notifications(items),
        key="notifications_table",
        column_config=columns.notifications(widgets.zone()),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        alt="Notifications, newest first",
    )


def silences(items: Sequence[Json], role: str | None, now: float) -> None:
    """Those that run or will run with their buttons, then those that are over."""
    over = [one for one in items if one.get("state") == "expired"]
    panels.silences([one for one in items if one.get("state") != "expired"], role, now)
    if over:
        st.markdown("**Expired**")
        st.dataframe(
            frames.silences(over),
            key="expired_table",
            column_config=columns.silences(widgets.zone()),
            hide_index=True,
            height=widgets.table_height(len(over)),
            row_height=widgets.ROW_HEIGHT,
            alt="Silences that are over, newest first",
        )


def _to_alert(items: Sequence[Json]) -> columns.Opener:
    names = [(frames.name(one), str(one.get("fingerprint"))) for one in items]
    return "alert_click", _open_alert, ("alert_click", names)


def _to_query(items: Sequence[Json]) -> columns.Opener:
    names = [(frames.query(one), str(one.get("query_id") or "")) for one in items]
    return "query_click", widgets.open_clicked, ("query_click", names)


def _open_alert(click: str, rows: Sequence[tuple[str, str]]) -> None:
    """Show the alert whose name was clicked (a table's callback), found as `widgets.open_clicked` does."""
    clicked = st.session_state[click]
    if fingerprint := widgets.chosen_id(rows, clicked["row"], clicked["label"]):
        st.query_params["alert"] = fingerprint
