"""Fleet page: every query with its verdict; what needs attention is first, the newest before older. A click opens a query.

The server filters, sorts and cuts into pages. Filters, order and page are in the address, so that a link shows the same
rows.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from ui.actions import bulk
from ui.alerting import incident_panel
from ui.fleet import saved_views
from ui.fleet import table as fleet_table
from ui.kit import cached_reads, listing, statuses, units, widgets
from ui.kit.fleet_page import ATTENTION, ROWS, FleetPage
from ui.kit.frames import Json
from ui.kit.listing import PageOfRows

#: Orders that start with the largest value when their column is clicked first.
LARGEST_FIRST = fleet_table.SORTABLE - {ATTENTION, "status", "name", "app"}


def toggle(status: str) -> None:
    """Add the status to the filter or remove it (a button's callback)."""
    chosen = st.session_state.get("status") or []
    others = [name for name in chosen if name != status]
    st.session_state["status"] = others if status in chosen else [*chosen, status]


def sort_by(field: str) -> None:
    """Order by this field; a second click turns the order round (a table's callback)."""
    first = f"-{field}" if field in LARGEST_FIRST else field
    turned = field if first.startswith("-") else f"-{field}"
    st.query_params["sort"] = turned if order() == first else first
    st.query_params.pop("from_row", None)


def turn_to(offset: int) -> None:
    """Show the page that starts with this row (a table's callback)."""
    st.query_params["from_row"] = str(offset)


def order() -> str:
    """The order in the address; what needs attention first without a valid one."""
    found = st.query_params.get("sort", "")
    return found if found.removeprefix("-") in fleet_table.SORTABLE else ATTENTION


def filters(choices: Mapping[str, Any]) -> tuple[FleetPage, list[str]]:
    """Draw the filters (`?search=&server=&app=&status=&label=`); returns the page that they ask for and the columns."""
    servers = sorted(choices.get("servers") or ())
    apps = _known(choices, "apps", "app")
    labels = _known(choices, "labels", "label")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="filters"):
        search = widgets.search_input(
            "search", 'Search name, app, reason, alert, label or id, or {app="billing"}'
        )
        chosen_apps = widgets.filter_select("App", sorted(apps), "app", "All apps")
        chosen = widgets.filter_select("Status", list(statuses.STATUSES), "status", "All statuses")
        chosen_labels = widgets.filter_select("Label", sorted(labels), "label", "All labels")
        named = widgets.filter_select("Server", servers, "server", "All servers") if servers else []
        columns = choose_columns(labels)
        views = st.container(width="content")
    given = (search, tuple(chosen_apps), tuple(chosen), tuple(chosen_labels), tuple(named))
    if given != st.session_state.setdefault("fleet_filters", given):
        st.session_state["fleet_filters"] = given
        st.query_params.pop("from_row", None)  # another list starts with its first row
    start = units.number(st.query_params.get("from_row")) or 0.0
    page = FleetPage(
        *given,
        fields=fleet_table.fields(fleet_table.columns(columns)),
        sort=order(),
        offset=max(0, int(start)),
    )
    with views:
        saved_views.draw(page, columns)
    return page, columns


def _known(choices: Mapping[str, Any], kind: str, key: str) -> set[str]:
    """What a filter offers: what the server knows, and what is chosen although the server does not know it now."""
    chosen = (*st.query_params.get_all(key), *(st.session_state.get(key) or ()))
    return {*(choices.get(kind) or ()), *chosen}


def choose_columns(labels: Iterable[str]) -> list[str]:
    """Draw the choice of columns (`?column=`) and return their names."""
    offered = fleet_table.choosable(labels)
    chosen = (*st.query_params.get_all("column"), *(st.session_state.get("column") or ()))
    offered += sorted({name for name in chosen if name.startswith(fleet_table.LABEL)} - set(offered))
    with st.popover("Columns", icon=":material/view_column:"):
        return st.multiselect(
            "Columns", offered, fleet_table.DEFAULT, key="column", bind="query-params", placeholder="None"
        )


def table(body: Json, page: FleetPage, columns: Collection[str]) -> None:
    """The table of this page's queries."""
    shown = fleet_table.columns(columns)
    rows = fleet_table.rows(body.get("queries") or [], shown)
    total = int(body.get("total") or 0)
    listing.draw(
        "fleet_table",
        "The fleet's queries; a row opens its query",
        [column.shown for column in shown],
        PageOfRows(rows, total, page.offset, ROWS, page.sort),
        listing.by_link,
        sort_by,
        turn_to,
    )


def act_on_all(page: FleetPage, total: int) -> None:
    """The button for an action on all queries that the filters show, not those of this page alone."""
    servers = (cached_reads.fleet_choices().body or {}).get("choices", {}).get("servers") or ()
    refusal = bulk.refusal_of(total, servers, cached_reads.role())
    bulk.button(total, lambda: _shown_ids(page), refusal)


def _shown_ids(page: FleetPage) -> list[str]:
    """The ids of all queries that the filters show."""
    reading = cached_reads.fleet(replace(page, offset=0, limit=bulk.MAX_QUERIES))
    return [str(query["query_id"]) for query in (reading.body or {}).get("queries") or []]


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    above = st.container()
    tiles = st.container()
    page, columns = filters((cached_reads.fleet_choices().body or {}).get("choices") or {})
    reading = cached_reads.fleet(page)
    with stamp:
        widgets.as_of(reading)
    with above:
        widgets.banner(reading)
        incident_panel.banner()
    if reading.body is None:
        return
    counts = reading.body.get("counts") or {}
    with tiles:
        widgets.status_tiles(counts, list(page.statuses), toggle)
    if reading.body.get("queries"):
        table(reading.body, page, columns)
        act_on_all(page, int(reading.body.get("total") or 0))
    elif page.offset and reading.body.get("total"):
        st.button("Show the first page", on_click=turn_to, args=(0,))
    elif counts or page != FleetPage(fields=page.fields, sort=page.sort):
        st.caption("No query matches the filters.")
    else:
        widgets.getting_started(cached_reads.connection().server)


stamp_place = widgets.header("Fleet")
bulk.draw_followed()
live(stamp_place)
bulk.draw()
