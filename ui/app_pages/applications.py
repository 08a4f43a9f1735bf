"""Applications page: declared applications with desired and actual state, and all drivers. A name opens its panel.

The selected application and driver are in the address (`?application=&driver=`), so that a link shows the same ones.
"""

import time
from typing import Any

import streamlit as st

from ui.actions import bulk
from ui.applications import dialogs, driver_panel, driver_table, frames, panel
from ui.kit import cached_reads, listing, widgets

UNSUPPORTED = "This server has no applications, because it is older than this dashboard."
#: The table shows so many; worse ones come first.
MAX_DRIVERS = 200
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
    widgets.follow_click()
    apps = widgets.listed(reading, "apps", UNSUPPORTED, EMPTY)
    if apps:
        applications(apps)
    drivers()


def applications(apps: list[dict[str, Any]]) -> None:
    """The declared applications, and the panel of the selected one."""
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


def drivers() -> None:
    """All drivers, declared or not, worst first; nothing before the first one."""
    now, body = time.time(), cached_reads.agents().body or {}
    agents = body.get("agents") or []
    found = driver_table.shown(agents, now)
    if wanted := st.query_params.get("driver"):
        driver_panel.draw(wanted, agents)
    if not found:
        return
    st.header("Drivers", anchor=False)
    st.caption(driver_table.counts(found))
    page = listing.PageOfRows(driver_table.rows(found[:MAX_DRIVERS]), len(found), limit=MAX_DRIVERS)
    listing.draw(
        "drivers_table",
        "Drivers, worst first; a row opens the driver",
        driver_table.columns(),
        page,
        open_driver,
    )


def open_driver(agent: str) -> None:
    """Open a driver's panel (a table's callback)."""
    st.query_params["driver"] = agent


stamp_place = widgets.header("Applications")
bulk.draw_followed()
live(stamp_place)
bulk.draw()
dialogs.draw((cached_reads.apps().body or {}).get("apps") or [], cached_reads.role())
