"""The alerts that fire for one query, at the head of its page: each leads to the Alerts page.

`of_query` chooses them from what fires anywhere, which all pages read together; `draw` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.kit import statuses, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain

MAX_ALERTS = 6
MAX_SUMMARY_CHARS = 240  # characters of a summary


def draw(alerts: Sequence[Json], now: float) -> None:
    """One line an alert; nothing where there is none."""
    if not alerts:
        return
    with st.container(border=True, gap="xsmall", key="firing_alerts"):
        for place, alert in enumerate(alerts[:MAX_ALERTS]):
            _line(alert, now, place)
        if len(alerts) > MAX_ALERTS:
            st.caption(f"and {len(alerts) - MAX_ALERTS} more on the Alerts page")


def _line(alert: Json, now: float, place: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"firing_{place}"):
        widgets.badge(statuses.severity(alert.get("severity")))
        st.page_link(
            "app_pages/alerts.py",
            label=f"**{plain(alert.get('name') or 'alert')}**",
            query_params={"alert": str(alert.get("fingerprint") or "")},
        )
        st.caption(_since(alert, now), width="content")
        for word, icon in badges(alert):
            st.badge(word, icon=icon, color="gray")
        st.text(summary(alert), width="stretch")


def _since(alert: Json, now: float) -> str:
    return f"for {units.span(units.since(alert.get('fired_at') or alert.get('active_at'), now))}"


def badges(alert: Json) -> list[tuple[str, str]]:
    """Why nobody need be told of it now: who has it, what mutes it; as Markdown that is safe."""
    found = []
    if who := alert.get("acknowledged"):
        found.append((f"acknowledged by {plain(who.get('by') or 'somebody')}", ":material/how_to_reg:"))
    if alert.get("silenced_by"):
        found.append(("silenced", ":material/notifications_off:"))
    if alert.get("inhibited_by"):
        found.append(("inhibited", ":material/notifications_paused:"))
    return found


def summary(alert: Json) -> str:
    notes = alert.get("annotations") or {}
    text = one_line(notes.get("summary") or notes.get("description") or alert.get("reason") or "")
    return text if len(text) <= MAX_SUMMARY_CHARS else text[: MAX_SUMMARY_CHARS - 1] + "…"
