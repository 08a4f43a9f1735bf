"""Incidents page: queries that failed with one cause, open ones first; and one incident (`?incident=`).

A row opens its incident; the address keeps it, so that a link shows the same one.
"""

from typing import Any

import streamlit as st

from ui.alerting import dialogs, incident_frames, incident_panel
from ui.kit import cached_reads, widgets

UNSUPPORTED = "This server has no incidents, because it is older than this dashboard."
EMPTY = (
    "No incidents in the last 7 days. Failures of at least three queries with one cause within ten minutes become one "
    "incident, and so do two queries whose driver ended."
)


@st.fragment(run_every=widgets.refresh_seconds())
def incidents(stamp: Any) -> None:
    """The list, which refreshes."""
    reading = cached_reads.incidents()
    with stamp:
        widgets.as_of(reading)
    if found := widgets.listed(reading, "incidents", UNSUPPORTED, EMPTY):
        incident_panel.table(found)
    if "incident" in st.query_params:  # a row was opened
        st.rerun()


@st.fragment(run_every=widgets.refresh_seconds())
def incident(incident_id: str, head: Any, stamp: Any) -> None:
    """One incident, which refreshes; `head` and `stamp` are containers of the page."""
    reading = cached_reads.incident(incident_id)
    with stamp:
        widgets.as_of(reading)
    with head:
        if reading.body is None:
            incident_panel.unknown(reading.error)
            return
        widgets.banner(reading)
        incident_panel.head(reading.body["incident"])
        incident_panel.buttons(reading.body, cached_reads.role())
    incident_panel.draw(reading.body)


def draw_incident(incident_id: str) -> None:
    """The page of one incident."""
    known = (cached_reads.incident(incident_id).body or {}).get("incident")
    widgets.page_title(*([incident_frames.title(known)] if known else []), "Incidents")
    head = st.container()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
        stamp = st.container(width="content")
        widgets.refresh_picker()
    incident(incident_id, head, stamp)


if wanted := st.query_params.get("incident"):
    draw_incident(wanted)
else:
    incidents(widgets.header("Incidents"))
dialogs.draw()
