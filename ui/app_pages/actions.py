"""Actions: what was asked for, by whom and why, and how it ended. A click on a row leads to the query.

The filters live in the address (`?words=&state=`), so that what is seen can be sent to somebody.
"""

from typing import Any

import streamlit as st

from ui.kit import cached_reads, columns, frames, statuses, widgets


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    reading = cached_reads.actions()
    with stamp:
        widgets.as_of(reading)
    widgets.banner(reading)
    if reading.body is None:
        return
    search, state = st.columns([2, 1], vertical_alignment="bottom")
    with search:
        words = widgets.search_input("words", "Search action, query, app, person or reason")
    with state:
        states = widgets.filter_select("State", list(statuses.ACTION_STATES), "state", "All states")
    shown = frames.matching(reading.body.get("actions", []), words, state=states)
    if not shown:
        st.caption("No action matches." if words or states else "Nothing was asked for yet.")
        return
    names = [(frames.label(action), action["query_id"]) for action in shown]
    opener = ("actions_click", widgets.open_clicked, ("actions_click", names))
    st.dataframe(
        frames.actions(shown),
        key="actions_table",
        column_config=columns.actions(widgets.zone(), opener),
        hide_index=True,
        height=widgets.table_height(len(shown)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Actions, newest first; press a name to open its query",
    )


live(widgets.header("Actions"))
