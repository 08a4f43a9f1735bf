"""Alerts: what fires, what is muted and by whom, what was, and who was told. A click on a name shows the alert.

The view, the filters and the alert shown live in the address
(`?view=&words=&severity=&app=&period=&alert=`), so that what is seen can be sent to somebody.
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
    asked = st.query_params.get("view", "")
    return asked if asked in selection.VIEWS else selection.VIEWS[0]


def filters(view: str, alerts: Sequence[Json]) -> AlertFilters:
    """The row of filters, as the view has them; its last place is for what belongs to the view alone."""
    search, *rest = st.columns(WIDTHS.get(view, [2, 1, 1]), vertical_alignment="bottom")
    with search:
        words = widgets.search_input("words", "Search name, query, summary, label or person")
    with rest[-1].container(horizontal=True, horizontal_alignment="right"):
        if view == "silences":
            refused = selection.role_refusal(cached_reads.role())
            dialogs.button("New silence", "silence", {}, ":material/add:", refused)
        if view in ("history", "notifications"):
            panels.period_picker()
    if len(rest) < 2:
        return AlertFilters(words)
    known = {str(one["app"]) for one in alerts if one.get("app")} | set(st.query_params.get_all("app"))
    with rest[0]:
        severities = widgets.filter_select(
            "Severity", list(statuses.SEVERITIES)[:3], "severity", "All severities"
        )
    with rest[1]:
        apps = widgets.filter_select("App", sorted(known), "app", "All apps")
    return AlertFilters(words, severities, apps)


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    reading, view = cached_reads.alerts(), chosen_view()
    with stamp:
        widgets.as_of(reading)
    widgets.banner(reading)
    if reading.body is None:
        return
    silences = (cached_reads.silences().body or {}).get("silences", [])
    seen = AlertsSnapshot(reading.body.get("alerts", []), silences, time.time())
    above = st.container()
    chosen = filters(view, seen.alerts)  # first: on a cold start it is they who read the address
    with above:
        panels.view_tiles(views.counts(seen, view), view)
    wanted = st.query_params.get("alert")
    left, *right = st.columns([3, 2] if wanted else 1)
    with left:
        views.draw(view, seen, chosen, narrow=bool(wanted))
    if wanted:
        with right[0]:
            views.draw_detail(wanted, seen)


live(widgets.header("Alerts"))
dialogs.draw()
