"""Checkpoints page: the checkpoint health of every query, worst first. A click opens the query's panel.

The filters are in the address (`?seek=&home=&verdict=`), so that a link shows the same rows. They have names
of their own, because a page cannot set a parameter that a widget of another page is bound to.
"""

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.checkpoints import assessment, columns, frames
from ui.kit import cached_reads, statuses, widgets
from ui.kit.frames import Json

UNSUPPORTED = (
    "This server does not check checkpoints, because it is older than this dashboard. "
    "`controlplane doctor CHECKPOINT` checks one from a shell."
)
EMPTY = (
    "No checkpoints yet. The agent takes an inventory when a query starts, fails or is stopped. "
    "`controlplane doctor CHECKPOINT` checks one from a shell."
)


def toggle(verdict: str) -> None:
    """Add the verdict to the filter or remove it (a button's callback)."""
    chosen = st.session_state.get("verdict") or []
    others = [name for name in chosen if name != verdict]
    st.session_state["verdict"] = others if verdict in chosen else [*chosen, verdict]


def filters(items: Sequence[Json]) -> list[Json]:
    """Draw the filters and return the checkpoints that match."""
    apps = {str(item.get("app")) for item in items} | set(st.query_params.get_all("home"))
    left, app, verdict = st.columns([2, 1, 1], vertical_alignment="bottom")
    with left:
        search = widgets.search_input("seek", "Search name, app, path, verdict or id")
    with app:
        homes = widgets.filter_select("App", sorted(apps), "home", "All apps")
    with verdict:
        verdicts = widgets.filter_select("Verdict", list(statuses.VERDICTS), "verdict", "All verdicts")
    return assessment.matching(items, search, app=homes, verdict=verdicts)


def table(shown: Sequence[Json]) -> None:
    """The table of these checkpoints."""
    names = [(frames.name(item), str(item.get("query_id"))) for item in shown]
    opener = ("checkpoints_click", widgets.open_clicked, ("checkpoints_click", names, {"checkpoint": "true"}))
    st.dataframe(
        frames.checkpoints(shown, time.time()),
        key="checkpoints_table",
        column_config=columns.checkpoints(opener),
        hide_index=True,
        height=widgets.table_height(len(shown)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Checkpoints, worst first; select a name to see its query's checkpoint",
    )


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.checkpoints()
    with stamp:
        widgets.as_of(reading)
    widgets.follow_click()
    items = widgets.listed(reading, "checkpoints", UNSUPPORTED, EMPTY)
    if not items:
        return
    above = st.container()
    shown = filters(items)  # before the tiles: on a cold start the filters read the address
    with above:
        counts, chosen = assessment.counts(items), st.session_state.get("verdict") or []
        widgets.count_tiles(statuses.VERDICTS, counts, chosen, toggle)
    if shown:
        table(shown)
    else:
        st.caption("No checkpoint matches the filters.")


live(widgets.header("Checkpoints"))
