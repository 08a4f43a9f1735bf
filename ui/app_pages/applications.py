"""Applications page: every declared application with its desired and actual state. A name opens its panel.

The selected application is in the address (`?application=`), so that a link shows the same one.
"""

from typing import Any

import streamlit as st

from ui.actions import bulk
from ui.applications import dialogs, frames, panel
from ui.kit import cached_reads, widgets

UNSUPPORTED = "This server has no applications, because it is older than this dashboard."
EMPTY = (
    "No applications are declared. `controlplane apps apply apps.yaml` declares them; "
    "the server starts their drivers by launchers that `--launcher KIND` allows."
)


def select(click: str, names: list[str]) -> None:
    """Select the application whose name was clicked (the table's callback)."""
    label = st.session_state[click]["label"]
    if label in names:
        st.query_params["application"] = label


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.apps()
    with stamp:
        widgets.as_of(reading)
    apps = widgets.listed(reading, "apps", UNSUPPORTED, EMPTY)
    if not apps:
        return
    names = [str(app.get("name")) for app in apps]
    opener = ("apps_click", select, ("apps_click", names))
    st.dataframe(
        frames.applications(apps),
        key="apps_table",
        column_config=frames.columns(widgets.zone(), opener),
        hide_index=True,
        height=widgets.table_height(len(apps)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Applications; select a name to see one",
    )
    chosen = st.query_params.get("application") or (names[0] if len(names) == 1 else None)
    if chosen in names:
        panel.draw(apps[names.index(chosen)])


stamp_place = widgets.header("Applications")
bulk.draw_followed()
live(stamp_place)
bulk.draw()
dialogs.draw((cached_reads.apps().body or {}).get("apps") or [], cached_reads.role())
