"""Server page: is the server itself well? Roles, stages with their charts, store and quotas, receivers, tokens."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.kit import cached_reads, charts, listing, series_queries, units, widgets
from ui.kit.frames import Json
from ui.kit.listing import ListColumn, ListRow, PageOfRows
from ui.kit.markup import plain
from ui.query.chart_panels import CHART_HEIGHT
from ui.server import figures, trial

RANGE_SECONDS = 3600.0


def table(key: str, title: str, columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> None:
    """A heading and a table without links."""
    if rows:
        st.header(title, anchor=False)
        listing.draw(f"server_{key}", title, columns, PageOfRows(rows, len(rows), limit=len(rows)))


def draw_charts(now: float) -> None:
    """The last hour of the stages, without those that have no data."""
    every = series_queries.step(RANGE_SECONDS)
    window = (now - RANGE_SECONDS, now)
    with st.grid(3, min_column_width=330, gap="xsmall"):
        for panel, expression in figures.CHARTS:
            answer = cached_reads.series(expression, RANGE_SECONDS, every).body
            frame = series_queries.table(answer, panel, window, every)
            if frame.drop(columns="time").isna().all(axis=None):
                continue
            option = charts.ranges(frame, window, [], series_queries.unit(panel.metrics[0]))
            with st.container(border=True, gap=None):
                st.markdown(f"**{panel.title}**")
                alt = f"{panel.title} in the last hour"
                st.echarts_chart(option, key=f"chart_server_{panel.key}", height=CHART_HEIGHT - 60, alt=alt)


def who() -> None:
    """The token of this dashboard."""
    found = cached_reads.whoami().body or {}
    if found.get("name"):
        name, role = plain(found["name"]), plain(found.get("role"))
        st.caption(
            f"This dashboard uses the token {name} with the role {role}. `controlplane token list` lists all."
        )


def active_of(found: Sequence[Json]) -> Json:
    """The active server, else the first that answers."""
    answering = [server for server in found if not server.get("error")]
    return next((server for server in answering if server.get("role") == "active"), (answering or [{}])[0])


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.servers()
    with stamp:
        widgets.as_of(reading)
    widgets.banner(reading)
    if reading.body is None:
        return
    found = reading.body["servers"]
    server = active_of(found)
    table("servers", "Servers", figures.SERVER_COLUMNS, figures.servers(found))
    if not server.get("figures"):
        st.caption(
            "This server does not report its figures: it is older than the dashboard, or it does not answer."
        )
        return
    table("stages", "Stages", figures.STAGE_COLUMNS, figures.stages(server))
    draw_charts(units.moment(reading.at) or 0.0)
    table("limits", "Store and quotas", figures.LIMIT_COLUMNS, figures.limits(server))
    known = (cached_reads.receivers().body or {}).get("receivers") or []
    sent = (cached_reads.notifications().body or {}).get("notifications") or []
    table("receivers", "Receivers", figures.RECEIVER_COLUMNS, figures.receivers(known, sent))
    trial.draw(known)
    if cached_reads.role() == "admin":
        all_tokens = (cached_reads.tokens().body or {}).get("tokens") or []
        table("tokens", "Tokens", figures.TOKEN_COLUMNS, figures.tokens(all_tokens, reading.at))
    who()


live(widgets.header("Server"))
