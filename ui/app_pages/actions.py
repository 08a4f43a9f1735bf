"""Actions page: every stop, start and restart with its requester, reason and outcome.

A click on a name opens the query. The filters are in the address (`?words=&state=`), so that a link shows the
same rows.
"""

from typing import Any

import streamlit as st

from ui.kit import cached_reads, columns, frames, statuses, widgets


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.actions()
    with stamp:
        widgets.as_of(reading)
    widgets.follow_click()
    widgets.banner(reading)
    if reading.body is None:
        return
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    with left:
        search = widgets.search_input("words", "Search action, query, app, person or reason")
    with right:
        states = widgets.filter_select("State", list(statuses.ACTION_STATES), "state", "All states")
    shown = frames.matching(reading.body.get("actions", []), search, state=states)
    if not shown:
        st.caption("No action matches the filters." if search or states else "No actions yet.")
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
        alt="Actions, newest first; select a name to open its query",
    )


live(widgets.header("Actions"))
