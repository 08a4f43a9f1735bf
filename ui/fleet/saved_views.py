"""Saved views of the Fleet page: filters, order and columns under a name, for everybody. `ui/app_pages/fleet.py` calls `draw`."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, urlencode

import streamlit as st

from ui.fleet import table
from ui.kit import action_checks, cached_reads
from ui.kit.answers import ClientError
from ui.kit.fleet_page import ATTENTION, FleetPage
from ui.kit.frames import Json
from ui.kit.markup import plain

MAX_NAME_CHARS = 80


def draw(page: FleetPage, columns: Sequence[str]) -> None:
    """The list of views, and a form that saves what the page shows now."""
    reading = cached_reads.saved_views()
    refusal = action_checks.role_refusal(cached_reads.role(), "Changes of views")
    with st.popover("Views", icon=":material/bookmarks:"):
        views = (reading.body or {}).get("views") or []
        for view in views:
            _view(view, refusal)
        if reading.body is None:
            st.caption(plain(f"The views are not known: {reading.error}"))
        elif not views:
            st.caption("No view is saved yet.")
        _form(parameters(page, columns), refusal)


def parameters(page: FleetPage, columns: Sequence[str]) -> str:
    """The query string of an address that shows the same rows and columns."""
    given = {
        "search": [page.search] if page.search else [],
        "server": page.servers,
        "app": page.apps,
        "status": page.statuses,
        "label": page.labels,
        "sort": [page.sort] if page.sort != ATTENTION else [],
        "column": columns if list(columns) != list(table.DEFAULT) else [],
    }
    return urlencode({name: list(values) for name, values in given.items() if values}, doseq=True)


def _view(view: Json, refusal: str | None) -> None:
    name = str(view.get("name"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            plain(name),
            key=f"open_view_{name}",
            type="tertiary",
            on_click=_open,
            args=(str(view.get("parameters") or ""),),
        )
        st.button(
            "Delete",
            key=f"delete_view_{name}",
            icon=":material/delete:",
            type="tertiary",
            help=refusal or f"Saved by {plain(str(view.get('saved_by')))}",
            disabled=refusal is not None,
            on_click=_delete,
            args=(name,),
        )


def _open(shown: str) -> None:
    """Show this view: the filters are widgets, which write the address themselves."""
    given = parse_qs(shown)
    for name in ("server", "app", "status", "label"):
        st.session_state[name] = given.get(name, [])
    st.session_state["search"] = given.get("search", [""])[0]
    st.session_state["column"] = given.get("column", list(table.DEFAULT))
    for name in ("sort", "from_row"):
        st.query_params.pop(name, None)
    if "sort" in given:
        st.query_params["sort"] = given["sort"][0]


def _form(shown: str, refusal: str | None) -> None:
    with st.form("save_view", border=False, clear_on_submit=True):
        st.text_input(
            "Name of this view", key="view_name", max_chars=MAX_NAME_CHARS, disabled=refusal is not None
        )
        st.form_submit_button(
            "Save this view", disabled=refusal is not None, help=refusal, on_click=_save, args=(shown,)
        )


def _save(shown: str) -> None:
    name = str(st.session_state.get("view_name") or "").strip()
    if not name:
        st.toast("Give the view a name.", icon=":material/error:")
        return
    try:
        cached_reads.save_view(name, shown)
    except ClientError as error:
        st.toast(plain(str(error)), icon=":material/error:")


def _delete(name: str) -> None:
    try:
        cached_reads.delete_view(name)
    except ClientError as error:
        st.toast(plain(str(error)), icon=":material/error:")
