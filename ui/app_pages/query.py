"""Query: one query with its verdict, charts, runs and failures, and the buttons that act on it.

`ui.panels` draws the parts, `ui.dialogs` asks, `ui.following` watches what was asked for.
"""

import time
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import choices, data, dialogs, following, frames, panels, units, widgets
from ui.frames import Json


@dataclass(frozen=True)
class Slots:
    """Places that the page lays out once and the live part fills."""

    head: Any
    tiles: Any
    stamp: Any


@st.fragment(run_every=widgets.refresh_seconds())
def wait(identity: str) -> None:
    """Nothing to show: say why, and look again."""
    reading = data.query(identity)
    if reading.body:
        st.rerun()
    st.title("Query", anchor=False)
    widgets.banner(reading)


def pick() -> None:
    """No query in the address: choose one."""
    st.title("Query", anchor=False)
    reading = data.fleet()
    widgets.banner(reading)
    known = (reading.body or {}).get("queries", [])
    names = {query["query_id"]: f"{query.get('app')} / {frames.label(query)}" for query in known}
    picked = st.selectbox("Query", list(names), format_func=names.__getitem__, index=None)
    if picked:
        st.query_params["query_id"] = picked
        st.rerun()


def layout(query: Json, refused: dict[str, str | None]) -> Slots:
    with st.container(horizontal=True, vertical_alignment="top"):
        head = st.container(width="stretch")
        with st.container(horizontal=True, width="content", wrap=False, gap="xsmall"):
            for action, why in refused.items():
                dialogs.button(action, query["query_id"], why)
    with st.container():  # always there, so that what follows keeps its place
        following.watch(query["query_id"])
    tiles = st.container()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        widgets.range_picker()
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            stamp = st.container(width="content")
            widgets.refresh_picker()
    return Slots(head, tiles, stamp)


@st.fragment(run_every=widgets.refresh_seconds())
def live(identity: str, slots: Slots, drawn: dict[str, str | None], role: str | None) -> None:
    """Everything that changes by itself; when that concerns the buttons, the whole page is drawn again."""
    reading = data.query(identity)
    query = reading.body or {}
    if query and choices.refusals(query, role) != drawn and not dialogs.asking(identity):
        st.rerun()
    with slots.head:
        panels.head(query)
    with slots.tiles:
        widgets.banner(reading)
        with st.container():
            following.others(query)
            panels.superseded(query)
            panels.failure(query.get("failure"))
        panels.tiles(query)
    with slots.stamp:
        widgets.as_of(reading)
    now, seconds = time.time(), widgets.range_seconds()
    points = (data.progress(identity, seconds).body or {}).get("progress", [])
    panels.series(points, (now - seconds, now), units.number(query.get("trigger_interval_seconds")))
    panels.tables(query)


def page(identity: str) -> None:
    query, role = data.query(identity).body, data.role()
    if query is None:
        wait(identity)
        return
    drawn = choices.refusals(query, role)
    live(identity, layout(query, drawn), drawn, role)
    if question := dialogs.asking(identity):
        dialogs.confirm(query, question)


chosen = st.query_params.get("query_id")
if chosen:
    page(chosen)
else:
    pick()
