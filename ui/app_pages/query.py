"""Query page: one query with its verdict, charts, runs and failures, and the buttons for its actions.

`ui.query.panels` draws the parts, `ui.actions.dialogs` asks for confirmation, `ui.actions.tracking` follows
the requested action.
"""

import time
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.actions import change_dialog, dialogs, tracking
from ui.alerting import firing_alerts, incident_panel
from ui.kit import action_checks, cached_reads, frames, time_range, widgets
from ui.kit.fleet_page import FleetPage
from ui.kit.frames import Json
from ui.kit.time_range import TimeRange
from ui.query import capacity_panel, chart_panels, checkpoint_panel, comparison, panels, what_changed


@dataclass(frozen=True)
class PageSlots:
    """Containers that the page creates once and the live part fills."""

    head: Any
    tiles: Any
    stamp: Any


@st.fragment(run_every=widgets.refresh_seconds())
def wait(identity: str) -> None:
    """Without a query: show the reason, and try again at the refresh interval."""
    reading = cached_reads.query(identity)
    if reading.body:
        st.rerun()
    st.title("Query", anchor=False)
    widgets.banner(reading)


def pick() -> None:
    """Without a query in the address: choose one."""
    st.title("Query", anchor=False)
    search = st.text_input("Search", key="pick_search", placeholder="Search name, app, label or id")
    reading = cached_reads.fleet(FleetPage(search=search or "", sort="name"))
    widgets.banner(reading)
    known = (reading.body or {}).get("queries", [])
    names = {query["query_id"]: f"{query.get('app')} / {frames.label(query)}" for query in known}
    picked = st.selectbox("Query", list(names), format_func=names.__getitem__, index=None)
    if picked:
        st.query_params["query_id"] = picked
        st.rerun()


def open_on_last_activity(query: Json) -> None:
    """Open an ended query on its last active range, once: its present has no data. *Back to now* leaves it."""
    window = time_range.last_activity(query, time.time())
    opened = st.session_state.setdefault("opened_on_last_activity", set())
    if window and query["query_id"] not in opened and not {"from", "to", "range"} & set(st.query_params):
        time_range.pin(*window)
    opened.add(query["query_id"])


def layout(
    query: Json, refused: dict[str, str | None], role: str | None
) -> tuple[PageSlots, TimeRange, str | None]:
    """Draw the fixed parts; returns the containers of the live part, the time range and what to compare with."""
    with st.container(horizontal=True, vertical_alignment="top"):
        head = st.container(width="stretch")
        with st.container(horizontal=True, width="content", wrap=False, gap="xsmall"):
            for action, reason in refused.items():
                dialogs.button(action, query["query_id"], reason)
    with st.container():  # always there, so that what follows keeps its place
        tracking.draw_tracked(query["query_id"])
    tiles = st.container()
    checkpoint_panel.draw(query, role)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            window = time_range.picker(time.time())
            other = comparison.picker(query)
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            stamp = st.container(width="content")
            widgets.refresh_picker()
    return PageSlots(head, tiles, stamp), window, other


def live(
    identity: str,
    slots: PageSlots,
    drawn: dict[str, str | None],
    role: str | None,
    window: TimeRange,
    other: str | None,
) -> None:
    """Everything that changes by itself; if that concerns the buttons, the whole page is redrawn."""
    reading, now = cached_reads.query(identity), time.time()
    query = reading.body or {}
    if query and action_checks.refusals(query, role) != drawn and not dialogs.open_request(identity):
        st.rerun()
    with slots.head:
        panels.head(query)
    with slots.tiles:
        widgets.banner(reading)
        with st.container():
            fired = action_checks.firing_alerts_of(cached_reads.alerts().body, identity)
            incident_panel.of_query(identity)
            firing_alerts.draw(fired, now)
            tracking.draw_other(query)
            panels.superseded(query)
            panels.failure(query.get("failure"))
            what_changed.draw(query, fired)
            panels.notes(query)
        panels.tiles(query)
        panels.host(query)
        capacity_panel.draw(query)
    with slots.stamp:
        widgets.as_of(reading)
    if other:
        comparison.draw(query, other, window, now)
    chart_panels.draw(query, window, now)
    panels.tables(query)


def page(identity: str) -> None:
    """The page of one query."""
    query, role = cached_reads.query(identity).body, cached_reads.role()
    if query is None:
        wait(identity)
        return
    widgets.page_title(frames.label(query), "Query")
    open_on_last_activity(query)
    drawn = action_checks.refusals(query, role)
    slots, window, other = layout(query, drawn, role)
    every = None if window.is_past(time.time()) else widgets.refresh_seconds()
    st.fragment(run_every=every)(live)(identity, slots, drawn, role, window, other)
    if request := dialogs.open_request(identity):
        dialogs.draw(query, request)
    elif change := change_dialog.open_request(identity):
        change_dialog.draw(change)


chosen = st.query_params.get("query_id")
if chosen:
    page(chosen)
else:
    pick()
