"""The firing alerts of a query, at the head of its page; each links to the Alerts page.

`action_checks.firing_alerts_of` selects them from all current alerts, which all pages read together.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.kit import statuses, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain, truncate

MAX_ALERTS = 6
MAX_SUMMARY_CHARS = 240


def draw(alerts: Sequence[Json], now: float) -> None:
    """One line per alert; nothing if there is none."""
    if not alerts:
        return
    with st.container(border=True, gap="xsmall", key="firing_alerts"):
        for index, alert in enumerate(alerts[:MAX_ALERTS]):
            _line(alert, now, index)
        if len(alerts) > MAX_ALERTS:
            st.caption(f"{len(alerts) - MAX_ALERTS} more on the Alerts page")


def _line(alert: Json, now: float, index: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"firing_{index}"):
        widgets.badge(statuses.severity(alert.get("severity")))
        st.page_link(
            "app_pages/alerts.py",
            label=f"**{plain(alert.get('name') or 'alert')}**",
            query_params={"alert": str(alert.get("fingerprint") or "")},
        )
        st.caption(_since(alert, now), width="content")
        for label, icon in badges(alert):
            st.badge(label, icon=icon, color="gray")
        st.text(summary(alert), width="stretch")


def _since(alert: Json, now: float) -> str:
    return f"for {units.span(units.since(alert.get('fired_at') or alert.get('active_at'), now))}"


def badges(alert: Json) -> list[tuple[str, str]]:
    """Markdown and icon of each mark: acknowledged by whom, silenced, inhibited."""
    found = []
    if acknowledged := alert.get("acknowledged"):
        found.append(
            (
                f"acknowledged by {plain(acknowledged.get('by') or 'an unknown person')}",
                ":material/how_to_reg:",
            )
        )
    if alert.get("silenced_by"):
        found.append(("silenced", ":material/notifications_off:"))
    if alert.get("inhibited_by"):
        found.append(("inhibited", ":material/notifications_paused:"))
    return found


def summary(alert: Json) -> str:
    """The summary annotation on one line, else the description, else the reason."""
    annotations = alert.get("annotations") or {}
    text = annotations.get("summary") or annotations.get("description") or alert.get("reason") or ""
    return truncate(one_line(text), MAX_SUMMARY_CHARS)
