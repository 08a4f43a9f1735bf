"""Fleet: every query with its verdict, worst first, as the server sorts them. A click on a row leads to the query.

The filters live in the address, so that what is seen can be sent to somebody.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.kit import cached_reads, columns, fleet_table, frames, statuses, widgets
from ui.kit.frames import Json


def toggle(status: str) -> None:
    chosen = st.session_state.get("status") or []
    others = [name for name in chosen if name != status]
    st.session_state["status"] = others if status in chosen else [*chosen, status]


def filters(queries: Sequence[Json]) -> list[int]:
    """Where the queries stand that pass the filters, which live in the address
    (`?search=&app=&status=&label=`)."""
    apps = {str(query.get("app")) for query in queries} | set(st.query_params.get_all("app"))
    labels = {*frames.label_choices(queries), *st.query_params.get_all("label")}
    search, app, status, label = st.columns([2, 1, 1, 1], vertical_alignment="bottom")
    with search:
        words = widgets.search_input("search", "Search name, app, reason, label or id")
    with app:
        chosen_apps = widgets.filter_select("App", sorted(apps), "app", "All apps")
    with status:
        chosen = widgets.filter_select("Status", list(statuses.STATUSES), "status", "All statuses")
    with label:
        chosen_labels = widgets.filter_select("Label", sorted(labels), "label", "All labels")
    return frames.matching_rows(queries, words, chosen_labels, app=chosen_apps, status=chosen)


def table(reading: cached_reads.CachedRead, queries: Sequence[Json], shown: Sequence[int]) -> None:
    names = [(frames.label(queries[place]), queries[place]["query_id"]) for place in shown]
    st.dataframe(
        fleet_table.rows(cached_reads.fleet_table(reading), shown),
        key="fleet_table",
        column_config=columns.fleet(("fleet_click", widgets.open_clicked, ("fleet_click", names))),
        hide_index=True,
        height=widgets.table_height(len(shown)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="The fleet's queries, worst first; press a name to open its query",
    )


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
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
    shown = filters(queries)  # first: on a cold start it is they who read the address
    with above:
        widgets.status_tiles(reading.body.get("counts", {}), st.session_state.get("status") or [], toggle)
    if shown:
        table(reading, queries, shown)
    else:
        st.caption("No query matches the filters.")


live(widgets.header("Fleet"))
