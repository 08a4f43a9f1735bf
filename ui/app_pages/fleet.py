"""Fleet page: every query with its verdict, in the server's order (worst first). A click opens the query.

The filters are in the address, so that a link shows the same rows.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.kit import cached_reads, columns, fleet_table, frames, statuses, widgets
from ui.kit.frames import Json


def toggle(status: str) -> None:
    """Add the status to the filter or remove it (a button's callback)."""
    chosen = st.session_state.get("status") or []
    others = [name for name in chosen if name != status]
    st.session_state["status"] = others if status in chosen else [*chosen, status]


def filters(queries: Sequence[Json]) -> list[int]:
    """Draw the filters (`?search=&app=&status=&label=`) and return the indexes of the queries that match."""
    apps = {str(query.get("app")) for query in queries} | set(st.query_params.get_all("app"))
    labels = {*frames.label_choices(queries), *st.query_params.get_all("label")}
    left, app, status, label = st.columns([2, 1, 1, 1], vertical_alignment="bottom")
    with left:
        search = widgets.search_input("search", "Search name, app, reason, label or id")
    with app:
        chosen_apps = widgets.filter_select("App", sorted(apps), "app", "All apps")
    with status:
        chosen = widgets.filter_select("Status", list(statuses.STATUSES), "status", "All statuses")
    with label:
        chosen_labels = widgets.filter_select("Label", sorted(labels), "label", "All labels")
    return frames.matching_rows(queries, search, chosen_labels, app=chosen_apps, status=chosen)


def table(reading: cached_reads.CachedRead, queries: Sequence[Json], shown: Sequence[int]) -> None:
    """The table of the queries at these indexes."""
    names = [(frames.label(queries[row]), queries[row]["query_id"]) for row in shown]
    st.dataframe(
        fleet_table.rows(cached_reads.fleet_table(reading), shown),
        key="fleet_table",
        column_config=columns.fleet(("fleet_click", widgets.open_clicked, ("fleet_click", names))),
        hide_index=True,
        height=widgets.table_height(len(shown)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="The fleet's queries, worst first; select a name to open its query",
    )


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.fleet()
    with stamp:
        widgets.as_of(reading)
    widgets.banner(reading)
    if reading.body is None:
        return
    queries = reading.body.get("queries", [])
    if not queries:
        widgets.getting_started(cached_reads.connection().server)
        return
    above = st.container()
    shown = filters(queries)  # before the tiles: on a cold start the filters read the address
    with above:
        widgets.status_tiles(reading.body.get("counts", {}), st.session_state.get("status") or [], toggle)
    if shown:
        table(reading, queries, shown)
    else:
        st.caption("No query matches the filters.")


live(widgets.header("Fleet"))
