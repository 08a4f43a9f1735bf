"""Checkpoints: would each query start again from its checkpoint, worst first. A click on a row leads to its panel.

The filters live in the address (`?seek=&home=&verdict=`), so that what is seen can be sent to somebody. They have
names of their own: a page may not set what another page's widget is bound to.
"""

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.checkpoints import assessment, columns, frames
from ui.kit import cached_reads, statuses, widgets
from ui.kit.frames import Json

OLD = (
    "This server does not judge checkpoints: it is older than this dashboard. "
    "`controlplane doctor CHECKPOINT` judges one from a shell."
)
NONE_YET = (
    "No checkpoint is known yet. A driver's agent looks at one when its query starts, fails or is stopped; "
    "`controlplane doctor CHECKPOINT` judges one from a shell."
)


def toggle(verdict: str) -> None:
    chosen = st.session_state.get("verdict") or []
    others = [name for name in chosen if name != verdict]
    st.session_state["verdict"] = others if verdict in chosen else [*chosen, verdict]


def filters(items: Sequence[Json]) -> list[Json]:
    apps = {str(item.get("app")) for item in items} | set(st.query_params.get_all("home"))
    search, app, verdict = st.columns([2, 1, 1], vertical_alignment="bottom")
    with search:
        words = widgets.search_input("seek", "Search name, app, path, verdict or id")
    with app:
        homes = widgets.filter_select("App", sorted(apps), "home", "All apps")
    with verdict:
        verdicts = widgets.filter_select("Verdict", list(statuses.VERDICTS), "verdict", "All verdicts")
    return assessment.matching(items, words, app=homes, verdict=verdicts)


def table(shown: Sequence[Json]) -> None:
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
        alt="Checkpoints, worst first; press a name to see its query's checkpoint",
    )


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    reading = cached_reads.checkpoints()
    with stamp:
        widgets.as_of(reading)
    if reading.kind == "missing":
        st.info(OLD, icon=":material/update:")
        return
    widgets.banner(reading)
    if reading.body is None:
        return
    items = reading.body.get("checkpoints") or []
    if not items:
        st.caption(NONE_YET)
        return
    above = st.container()
    shown = filters(items)  # first: on a cold start it is they who read the address
    with above:
        counts, chosen = assessment.counts(items), st.session_state.get("verdict") or []
        widgets.count_tiles(statuses.VERDICTS, counts, chosen, toggle)
    if shown:
        table(shown)
    else:
        st.caption("No checkpoint matches the filters.")


live(widgets.header("Checkpoints"))
