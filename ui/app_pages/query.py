"""Query: one query with its verdict, charts, runs and failures, and the buttons that act on it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import choices, data, dialogs, following, frames, panels, units, widgets
from ui.frames import Json

RANGES = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}


@dataclass(frozen=True)
class Slots:
    """Places that the page lays out once and the live part fills."""

    head: Any
    tiles: Any
    stamp: Any


def pick(queries: Sequence[Json]) -> None:
    """No query in the address: choose one."""
    st.title("Query", anchor=False)
    names = {query["query_id"]: f"{query.get('app')} / {frames.label(query)}" for query in queries}
    picked = st.selectbox("Query", list(names), format_func=names.__getitem__, index=None)
    if picked:
        st.query_params["query_id"] = picked
        st.rerun()


def refusals(query: Json, role: str | None) -> dict[str, str | None]:
    return {action: choices.why_not(action, query, role) for action in choices.ACTIONS}


def layout(query: Json, refused: dict[str, str | None]) -> Slots:
    with st.container(horizontal=True, vertical_alignment="top"):
        head = st.container(width="stretch")
        with st.container(horizontal=True, width="content", wrap=False, gap="xsmall"):
            for action, why in refused.items():
                dialogs.button(action, query["query_id"], why)
    following.watch(query["query_id"])
    tiles = st.container()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.segmented_control(
            "Time range",
            list(RANGES),
            default="1h",
            key="range",
            bind="query-params",
            required=True,
            label_visibility="collapsed",
        )
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            stamp = st.container(width="content")
            widgets.refresh_picker()
    return Slots(head, tiles, stamp)


@st.fragment(run_every=widgets.refresh_seconds())
def live(identity: str, slots: Slots, drawn: dict[str, str | None], role: str | None) -> None:
    """Everything that changes by itself; when that concerns the buttons, the whole page is drawn again."""
    reading = data.query(identity)
    query = reading.body or {}
    if query and refusals(query, role) != drawn and not dialogs.asking(identity):
        st.rerun()
    with slots.head:
        panels.head(query)
    with slots.tiles:
        widgets.banner(reading)
        following.others(query)
        panels.superseded(query)
        panels.failure(query.get("failure"))
        panels.tiles(query)
    with slots.stamp:
        widgets.as_of(reading)
    now, seconds = time.time(), RANGES.get(str(st.session_state.get("range")), 3600)
    points = (data.progress(identity, seconds).body or {}).get("progress", [])
    panels.series(points, (now - seconds, now), units.number(query.get("trigger_interval_seconds")))
    panels.tables(query)


def page(identity: str) -> None:
    reading = data.query(identity)
    if reading.body is None:
        st.title("Query", anchor=False)
        widgets.banner(reading)
        return
    role = data.role()
    drawn = refusals(reading.body, role)
    live(identity, layout(reading.body, drawn), drawn, role)
    if question := dialogs.asking(identity):
        dialogs.confirm(reading.body, question)


if chosen := st.query_params.get("query_id"):
    page(chosen)
else:
    pick(frames.worst_first((data.fleet().body or {}).get("queries", [])))
