"""Incidents on the screen: the list, one incident, and the links to it on other pages.

`ui/app_pages/incidents.py` draws the list and the detail; the Fleet, Query and Alerts pages draw the links.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from ui.alerting import dialogs, incident_frames, selection
from ui.alerting.incident_frames import ID_CHARS
from ui.kit import cached_reads, listing, units, widgets
from ui.kit.listing import ListColumn, ListRow, PageOfRows
from ui.kit.markup import plain, truncate, visible

Json = Mapping[str, Any]

PAGE = "app_pages/incidents.py"
MAX_LINKS = 3  # incidents that the Fleet page names
MAX_TITLE_CHARS = 90


def table(incidents: Sequence[Json]) -> None:
    """The list; a row opens its incident."""
    rows = incident_frames.rows(incidents, time.time())
    listing.draw(
        "incidents_table",
        "Incidents, open ones first; a row opens its incident",
        incident_frames.LIST_COLUMNS,
        PageOfRows(rows, len(rows)),
        open_incident,
    )


def open_incident(incident_id: str) -> None:
    """Show this incident (a table's callback)."""
    st.query_params["incident"] = incident_id


def _all_incidents() -> None:
    if st.button("All incidents", key="all_incidents", icon=":material/arrow_back:"):
        st.query_params.pop("incident", None)
        st.rerun()


def head(incident: Json) -> None:
    """Where the page is, cause, state, since when, and the sentence on the extent."""
    now = time.time()
    with st.container(gap="xsmall"):
        short = str(incident.get("id"))[:ID_CHARS]
        widgets.breadcrumbs(("Fleet", "app_pages/fleet.py", {}), here=f"Incident {short}")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            title = truncate(incident_frames.title(incident), MAX_TITLE_CHARS)
            st.title(plain(title), anchor=False, width="content")
            text, color = incident_frames.state(incident)
            st.badge(text, color=color)
            since = units.clock(incident.get("began_at"), widgets.zone(), now)
            lasted = incident_frames.lasted(incident, now)
            st.caption(plain(f"for {lasted}, since {since}"), width="content")
        st.text(visible(incident.get("sentence") or ""))


def buttons(detail: Json, role: str | None) -> None:
    """Acknowledge, the alert, its runbook, the bundle, and the way back to the list."""
    incident_id, alert = str(detail["incident"]["id"]), incident_frames.to_acknowledge(detail)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        if alert is not None:
            refused = selection.acknowledge_refusal(alert, role)
            dialogs.button("Acknowledge", "acknowledge", alert, ":material/check:", refused)
            name = str(alert["fingerprint"])
            widgets.page_link("Open alert", "alerts", ":material/notifications:", alert=name)
            if url := selection.runbook_link((alert.get("annotations") or {}).get("runbook_url")):
                st.link_button("Runbook", url, icon=":material/menu_book:", help=plain(url))
        st.download_button(
            "Download bundle",
            partial(_bundle, incident_id),
            file_name=f"incident-{incident_id[:ID_CHARS]}.html",
            mime="text/html",
            key="bundle",
            icon=":material/download:",
            help="One HTML file for a report: the incident with its timeline, and of each query the failure, what changed, "
            "the checkpoint and the runs.",
            on_click="ignore",
        )
        _all_incidents()


def _bundle(incident_id: str) -> bytes:
    answer = cached_reads.connection().incident_bundle(incident_id)
    return str(answer["html"]).encode()


def draw(detail: Json) -> None:
    """One incident: facts, queries, what was done, notifications, timeline."""
    now, zone = time.time(), widgets.zone()
    widgets.definition_list(incident_frames.facts(detail["incident"], now, zone), width=110)
    members = incident_frames.members(detail, now, zone)
    _part("Affected queries", "members", incident_frames.MEMBER_COLUMNS, members, "", opens=True)
    _part(
        "What was done",
        "done",
        incident_frames.DONE_COLUMNS,
        incident_frames.done(detail, now, zone),
        "No action was requested.",
    )
    _part(
        "Notifications",
        "notes",
        incident_frames.NOTIFIED_COLUMNS,
        incident_frames.notifications(detail, now, zone),
        "No notifications yet.",
    )
    events = incident_frames.events(detail, now, zone)
    _part("Timeline", "events", incident_frames.EVENT_COLUMNS, events, "Nothing is recorded yet.")
    if left_out := incident_frames.left_out(detail):
        st.caption(left_out)
    hidden = len(detail.get("timeline") or ()) - len(events)
    if hidden > 0:
        st.caption(f"{hidden} older events are in the bundle.")


def _part(
    title: str,
    key: str,
    columns: Sequence[ListColumn],
    rows: Sequence[ListRow],
    empty: str,
    opens: bool = False,
) -> None:
    with st.container(gap="xsmall", key=f"incident_{key}"):
        st.subheader(title, anchor=False)
        if not rows:
            st.caption(empty)
            return
        page = PageOfRows(rows, len(rows), limit=len(rows))
        listing.draw(f"incident_{key}_table", title, columns, page, listing.by_link if opens else None)


def unknown(error: str | None) -> None:
    """Text for an address with an incident that the server does not have."""
    st.title("Incident", anchor=False)
    st.info(plain(error or "The server does not have this incident."), icon=":material/search_off:")
    _all_incidents()


# -- links on other pages --------------------------------------------------------------------------


def _known() -> Sequence[Json]:
    return (cached_reads.incidents().body or {}).get("incidents") or ()


def banner() -> None:
    """The open incidents at the head of the Fleet page, each with a link; nothing while there is none."""
    with st.container():  # always there, so that what follows keeps its place
        found = incident_frames.open_ones(_known())
        if not found:
            return
        with st.container(border=True, gap="xsmall", key="open_incidents"):
            for place, incident in enumerate(found[:MAX_LINKS]):
                _line(incident, place)
            if len(found) > MAX_LINKS:
                st.page_link(PAGE, label=f"{len(found) - MAX_LINKS} more open incidents")


def of_query(query_id: str) -> None:
    """The open incident of a query that is down, with a link; nothing without one."""
    if found := incident_frames.of_query(_known(), query_id):
        with st.container(border=True, key="open_incidents"):
            _line(found, 0)


def _line(incident: Json, place: int) -> None:
    text, color = incident_frames.state(incident)
    taken = (incident.get("acknowledged") or {}).get("by")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"incident_{place}"):
        st.badge(text, color=color)
        params = {"incident": str(incident["id"])}
        title = truncate(incident_frames.title(incident), MAX_TITLE_CHARS)
        st.page_link(PAGE, label=f"**Incident: {plain(title)}**", query_params=params)
        if taken:
            st.badge(f"acknowledged by {plain(taken)}", icon=":material/how_to_reg:", color="gray")
        st.text(visible(incident.get("sentence") or ""), width="stretch")


def link_of_alert(alert: Json) -> None:
    """The link to the incident of an alert; nothing where it has none."""
    if incident_id := incident_frames.of_alert(_known(), alert):
        widgets.page_link("Open incident", "incidents", ":material/hub:", incident=incident_id)
