"""Alerts page: firing, pending, suppressed and past alerts, silences, notifications. A click shows the alert.

View, filters and the shown alert are in the address (`?view=&words=&severity=&app=&period=&alert=`), so that
a link shows the same page.
"""

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.alerting import dialogs, panels, selection, views
from ui.alerting.views import AlertFilters, AlertsSnapshot
from ui.kit import cached_reads, statuses, widgets
from ui.kit.frames import Json

WIDTHS: dict[str, list[float]] = {"silences": [4, 1], "notifications": [3, 2], "history": [2, 1, 1, 1.4]}


def chosen_view() -> str:
    """The view in the address, else the first one."""
    view = st.query_params.get("view", "")
    return view if view in selection.VIEWS else selection.VIEWS[0]


def filters(view: str, alerts: Sequence[Json]) -> AlertFilters:
    """The row of filters of this view; its last column holds what only this view has."""
    first, *rest = st.columns(WIDTHS.get(view, [2, 1, 1]), vertical_alignment="bottom")
    with first:
        search = widgets.search_input("words", "Search name, query, summary, label or person")
    with rest[-1].container(horizontal=True, horizontal_alignment="right"):
        if view == "silences":
            refused = selection.role_refusal(cached_reads.role())
            dialogs.button("New silence", "silence", {}, ":material/add:", refused)
        if view in ("history", "notifications"):
            panels.period_picker()
    if len(rest) < 2:
        return AlertFilters(search)
    known = {str(alert["app"]) for alert in alerts if alert.get("app")} | set(st.query_params.get_all("app"))
    with rest[0]:
        severities = widgets.filter_select(
            "Severity", list(statuses.SEVERITIES)[:3], "severity", "All severities"
        )
    with rest[1]:
        apps = widgets.filter_select("App", sorted(known), "app", "All apps")
    return AlertFilters(search, severities, apps)


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading, view = cached_reads.alerts(), chosen_view()
    with stamp:
        widgets.as_of(reading)
    widgets.follow_click()
    widgets.banner(reading)
    if reading.body is None:
        return
    silences = (cached_reads.silences().body or {}).get("silences", [])
    snapshot = AlertsSnapshot(reading.body.get("alerts", []), silences, time.time())
    above = st.container()
    chosen = filters(view, snapshot.alerts)  # before the tiles: on a cold start the filters read the address
    with above:
        panels.view_tiles(views.counts(snapshot, view), view)
    wanted = st.query_params.get("alert")
    left, *right = st.columns([3, 2] if wanted else 1)
    with left:
        views.draw(view, snapshot, chosen, narrow=bool(wanted))
    if wanted:
        with right[0]:
            views.draw_detail(wanted, snapshot)


if st.query_params.get("silence") and (linked := st.query_params.get("alert")):
    # The link of a notification: it opens the dialog once.
    del st.query_params["silence"]
    dialogs.open_linked_silence(linked)
live(widgets.header("Alerts"))
dialogs.draw()
