"""One driver on the Applications page (`?driver=`): what is known of it, the last hours of its host, the deploys before it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from ui.applications import driver_table
from ui.kit import cached_reads, charts, listing, series_queries, units, widgets
from ui.kit.listing import Cell, ListColumn, ListRow, PageOfRows
from ui.kit.markup import one_line, plain, visible

Json = Mapping[str, Any]

RANGE_SECONDS = 6 * 3600.0
CHART_HEIGHT = 180
#: Charts of a driver, by the keys of the Query page's.
CHARTS = ("host_load", "host_memory", "throttling", "heap", "executors")
#: Runs of the application shown: newest first.
MAX_DEPLOYS = 20

DEPLOY_COLUMNS = (
    ListColumn("Driver", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("Changed", "wide"),
    ListColumn("Version", "tight"),
    ListColumn("Spark", "tight"),
    ListColumn("Started", "number"),
    ListColumn("Ended", "number"),
)


def draw(wanted: str, agents: Sequence[Json]) -> None:
    """The panel of this agent, or that it is not known."""
    now = time.time()
    found = next((agent for agent in agents if agent.get("agent") == wanted), None)
    with st.container(border=True, key="driver_panel"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            title = f"Driver of {found.get('app')}" if found else "Driver"
            st.subheader(plain(title), anchor=False, width="stretch")
            st.button("Close", key="close_driver", icon=":material/close:", type="tertiary", on_click=_close)
        if found is None:
            st.caption("The server does not know this driver: it is older than its retention.")
            return
        style = driver_table.STATES.get(str(found.get("state")))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if style:
                widgets.badge(style)
            st.text(visible(found.get("reason") or ""), width="stretch")
        widgets.page_link("Queries", "fleet", ":material/dashboard:", app=str(found.get("app")))
        widgets.definition_list(facts(found, now))
        _charts(found, now)
        deploys = [agent for agent in agents if agent.get("app") == found.get("app")][:MAX_DEPLOYS]
        st.markdown("**Starts of this application**")
        rows = deploy_rows(deploys)
        page = PageOfRows(rows, len(rows), limit=MAX_DEPLOYS)
        listing.draw("driver_deploys", "Starts of this application, newest first", DEPLOY_COLUMNS, page)


def _close() -> None:
    """Close the panel (a button's callback)."""
    st.query_params.pop("driver", None)


def facts(agent: Json, now: float) -> list[tuple[str, str]]:
    """What is known of the driver, as labels and sentences; what is unknown is left out."""
    labels = ", ".join(f"{name}={value}" for name, value in (agent.get("labels") or {}).items())
    dropped = ", ".join(f"{units.count(n)} {reason}" for reason, n in (agent.get("dropped") or {}).items())
    started = units.clock(agent.get("first_seen_at"), widgets.zone(), now)
    rows = [
        ("Agent", agent.get("agent")),
        ("Spark application", agent.get("app_id")),
        ("Master", agent.get("master")),
        ("Spark", agent.get("spark_version")),
        ("Started", started),
        ("Labels", labels),
        ("Commands", driver_table.ALLOWED.get(str(agent.get("actions")), agent.get("actions"))),
        ("Events dropped", dropped),
        ("Overload", (agent.get("host") or {}).get("overload")),
        ("Spark UI", agent.get("ui_url") if agent.get("state") not in driver_table.OVER else ""),
    ]
    return [(name, visible(value)) for name, value in rows if value]


def _charts(agent: Json, now: float) -> None:
    """The last hours of the driver's host, heap and executors, without those that have no data."""
    every = series_queries.step(RANGE_SECONDS)
    window = (now - RANGE_SECONDS, now)
    with st.grid(3, min_column_width=330, gap="xsmall"):
        for known in series_queries.PANELS:
            if known.key not in CHARTS:
                continue
            panel = replace(known, of="agent", by="")
            asked = series_queries.expression(panel, dict(agent), every)
            answer = cached_reads.series(asked, RANGE_SECONDS, every).body
            frame = series_queries.table(answer, panel, window, every)
            if frame.drop(columns="time").isna().all(axis=None):
                continue
            option = charts.ranges(frame, window, [], series_queries.unit(panel.metrics[0]))
            with st.container(border=True, gap=None):
                st.markdown(f"**{panel.title}**")
                alt = f"{panel.title} in the last 6 hours"
                st.echarts_chart(option, key=f"chart_driver_{panel.key}", height=CHART_HEIGHT, alt=alt)


def deploy_rows(agents: Sequence[Json]) -> list[ListRow]:
    """One row per driver of an application, newest first, with what differs from the one before it."""
    befores: list[Json | None] = [*agents[1:], None]
    return [_deploy(agent, before) for agent, before in zip(agents, befores, strict=True)]


def _deploy(agent: Json, before: Json | None) -> ListRow:
    style = driver_table.STATES.get(str(agent.get("state")))
    state: Cell = {"text": style.label, "pill": style.color} if style else one_line(agent.get("state"))
    href = driver_table.address(agent)
    cells = [
        {"text": str(agent.get("agent"))[:8], "href": href},
        state,
        changed(agent, before),
        one_line((agent.get("labels") or {}).get("version") or units.UNKNOWN),
        one_line(agent.get("spark_version") or units.UNKNOWN),
        _time(agent.get("first_seen_at")),
        _time(agent.get("ended_at")),
    ]
    return ListRow(str(agent.get("agent")), cells)


def changed(agent: Json, before: Json | None) -> str:
    """`version 41 → 42; Spark 4.0.0 → 4.1.0`; empty without a driver before it."""
    if before is None:
        return ""
    own, last = dict(agent.get("labels") or {}), dict(before.get("labels") or {})
    names = [name for name in {**last, **own} if own.get(name) != last.get(name)]
    found = [(name, last.get(name), own.get(name)) for name in names]
    if agent.get("spark_version") != before.get("spark_version"):
        found.append(("Spark", before.get("spark_version"), agent.get("spark_version")))
    if agent.get("master") != before.get("master"):
        found.append(("master", before.get("master"), agent.get("master")))
    texts = [f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in found]
    return one_line("; ".join(texts)) or "Nothing known."


def _time(value: object) -> Cell:
    at = units.moment(value)
    return units.UNKNOWN if at is None else {"at": round(at)}
