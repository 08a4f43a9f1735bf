"""Tables of the Alerts page, one per view, and what a click on a name does.

`ui/app_pages/alerts.py` calls them; rows come from `ui.alerting.frames`, columns from `ui.alerting.columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.alerting import columns, frames, panels
from ui.kit import widgets

Json = Mapping[str, Any]


def alerts(view: str, items: Sequence[Json], silences: Mapping[str, Json], narrow: bool, now: float) -> None:
    """Firing, pending or suppressed alerts; `narrow` beside an alert's detail."""
    st.dataframe(
        frames.alerts(items, silences, now),
        key=f"{view}_table",
        column_config=columns.alerts(view, _to_alert(items), _to_query(items), narrow),
        column_order=columns.order(view, narrow),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt=f"Alerts, {view}, worst first; select a name to see the alert",
    )


def history(items: Sequence[Json], narrow: bool, now: float) -> None:
    """Alerts that fired in the period."""
    st.dataframe(
        frames.history(items, now),
        key="history_table",
        column_config=columns.history(widgets.zone(), _to_alert(items), _to_query(items)),
        column_order=columns.order("history", narrow),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Alerts that fired, newest first; select a name to see the alert",
    )


def rule_statistics(items: Sequence[Json]) -> None:
    """Rules that fired in the period, with the advice for their thresholds."""
    st.dataframe(
        frames.rule_statistics(items),
        key="rule_statistics_table",
        column_config=columns.rule_statistics(),
        hide_index=True,
        height=widgets.table_height(len(items)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Rules that fired in the period, most useless firings first",
    )


def notifications(items: Sequence[Json]) -> None:
    """Notifications of the period."""
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
    """Active and pending silences with their buttons, then the expired ones."""
    expired = [silence for silence in items if silence.get("state") == "expired"]
    panels.silences([silence for silence in items if silence.get("state") != "expired"], role, now)
    if expired:
        st.markdown("**Expired**")
        st.dataframe(
            frames.silences(expired),
            key="expired_table",
            column_config=columns.silences(widgets.zone()),
            hide_index=True,
            height=widgets.table_height(len(expired)),
            row_height=widgets.ROW_HEIGHT,
            alt="Expired silences, newest first",
        )


def _to_alert(items: Sequence[Json]) -> columns.Opener:
    names = [(frames.name(alert), str(alert.get("fingerprint"))) for alert in items]
    return "alert_click", _open_alert, ("alert_click", names)


def _to_query(items: Sequence[Json]) -> columns.Opener:
    names = [(frames.query(alert), str(alert.get("query_id") or "")) for alert in items]
    return "query_click", widgets.open_clicked, ("query_click", names)


def _open_alert(click: str, rows: Sequence[tuple[str, str]]) -> None:
    """Show the clicked alert (a table's callback), found like in `widgets.open_clicked`."""
    clicked = st.session_state[click]
    if fingerprint := widgets.chosen_id(rows, clicked["row"], clicked["label"]):
        st.query_params["alert"] = fingerprint
