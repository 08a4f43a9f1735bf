"""Panel of one application: actions, facts, drivers, queries and the end of its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from ui.actions import bulk
from ui.applications import dialogs, frames
from ui.kit import cached_reads, widgets
from ui.kit.markup import plain, visible


def draw(app: Mapping[str, Any]) -> None:
    """Draw the panel."""
    role = cached_reads.role()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(app.get("name")), anchor=False, width="content")
        widgets.badge(frames.style(app.get("state")))
        for action in ("start", "stop", "restart"):
            dialogs.button(action, app, dialogs.refusal_of(action, app, role))
    widgets.definition_list(frames.facts(app))
    names = [(frames.query_name(query), str(query["query_id"])) for query in app.get("queries") or []]
    opener = ("app_queries_click", widgets.open_clicked, ("app_queries_click", names))
    _table("Queries", frames.queries(app), frames.query_columns(opener))
    if names:
        servers = [str(app["server"])] if app.get("server") else []
        refusal = bulk.refusal_of(len(names), servers, role)
        bulk.button(len(names), lambda: [query_id for _, query_id in names], refusal)
    _table(
        "Drivers that report as this application", frames.drivers(app), frames.driver_columns(widgets.zone())
    )
    if role in ("operator", "admin") and app.get("started_at"):
        _output(str(app.get("name")))


def _table(title: str, rows: pd.DataFrame, columns: Any) -> None:
    count = len(rows)
    st.caption(title if count else f"{title}: none")
    if count:
        st.dataframe(
            rows,
            key=f"app_{title}",
            column_config=columns,
            hide_index=True,
            height=widgets.table_height(count),
            row_height=widgets.ROW_HEIGHT,
            placeholder="–",
            alt=title,
        )


def _output(name: str) -> None:
    if not st.toggle("Show the end of the output", key="app_output"):
        return
    reading = cached_reads.app_logs(name)
    if reading.body is None:
        st.warning(plain(reading.error), icon=":material/cloud_off:")
        return
    st.code(visible(reading.body.get("text") or "No output yet."), language=None, height=360)
