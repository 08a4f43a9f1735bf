"""Compare a query with its own past or with another query of its application, on one axis.

The choice is in the address: `?compare=1d`, `7d`, or another query's id, which may be of any application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.kit import cached_reads, charts, frames, series_queries, units
from ui.kit.fleet_page import FleetPage
from ui.kit.markup import one_line, plain, truncate
from ui.kit.series_queries import ChartPanel
from ui.kit.time_range import TimeRange

Json = Mapping[str, Any]

PERIODS = {"1d": "a day before", "7d": "a week before"}
THIS = "this query"
#: One line a query: of several sources the worst, of several operators the sum.
PANELS = {
    ChartPanel("compare_rate", "Input rate in rows per second", ("input_rows_per_second",)): "max",
    ChartPanel("compare_duration", "Batch duration", ("batch_duration_seconds",)): "max",
    ChartPanel("compare_backlog", "Backlog age", ("source_lag_seconds",)): "max",
    ChartPanel("compare_state", "State rows", ("state_rows",)): "sum",
}
MAX_QUERIES = 500
MAX_NAME_CHARS = 40
CHART_HEIGHT = 200


def picker(query: Json) -> str | None:
    """Choose what to compare with; None for nothing."""
    names = choices(query, _siblings(query), st.query_params.get("compare"))
    chosen = st.selectbox(
        "Compare with",
        list(names),
        index=list(names).index(st.query_params["compare"]) if "compare" in st.query_params else None,
        format_func=names.__getitem__,
        key=f"compare_with_{query.get('query_id')}",
        placeholder="Compare with…",
        label_visibility="collapsed",
        width=220,
    )
    if chosen != st.query_params.get("compare"):
        st.query_params.pop("compare", None)
        if chosen:
            st.query_params["compare"] = chosen
    return chosen


def choices(query: Json, siblings: list[Json], given: str | None) -> dict[str, str]:
    """What the query can be compared with, by the value in the address; `given` is kept although unknown."""
    known = {str(each["query_id"]): one_line(frames.label(each)) for each in siblings}
    known.pop(str(query.get("query_id")), None)
    names = {**PERIODS, **known}
    return names if given is None or given in names else {**names, given: given[:8]}


def _siblings(query: Json) -> list[Json]:
    page = FleetPage(apps=(str(query.get("app")),), sort="name", limit=MAX_QUERIES)
    return (cached_reads.fleet(page).body or {}).get("queries") or []


def expression(panel: ChartPanel, aggregation: str, query: Json, other: str, name: str, every: float) -> str:
    """PromQL of the query's line and of the other's, distinguished by the label `line`."""
    (metric,) = panel.metrics
    mine = {"query_id": str(query.get("query_id"))}
    theirs = mine if other in PERIODS else {"query_id": other}
    ago = f" offset {other}" if other in PERIODS else ""
    lines = ((mine, "", THIS), (theirs, ago, _line_name(other, name)))
    return " or ".join(
        f'label_replace({aggregation}({_selected(metric, own, before, every)}), "line", {series_queries.quoted(line)}, "", "")'
        for own, before, line in lines
    )


def _selected(metric: str, own: Mapping[str, str], before: str, every: float) -> str:
    selector = f"spark_streaming_{metric}{{query_id={series_queries.quoted(own['query_id'])}}}"
    if every >= units.HOUR_SECONDS:  # single samples of whole days would show a rhythm of their own
        return f"quantile_over_time(0.5, {selector}[{every:.0f}s]{before})"
    return f"{selector}{before}"


def _line_name(other: str, name: str) -> str:
    text = PERIODS.get(other) or truncate(one_line(name), MAX_NAME_CHARS)
    return text.replace("$", "$$")  # `label_replace` reads `$1` as a group


def draw(query: Json, other: str, window: TimeRange, now: float) -> None:
    """Draw the figures of both, and name those without data."""
    names = choices(query, _siblings(query), other)
    seconds, bounds = window.seconds, window.bounds(now)
    every = series_queries.step(seconds)
    missing = []
    title = PERIODS.get(other) or names[other]
    st.subheader(f"Compared with {plain(title)}", anchor=False)
    with st.grid(2, min_column_width=420, gap="xsmall"):
        for panel, aggregation in PANELS.items():
            asked = expression(panel, aggregation, query, other, names[other], every)
            answer = cached_reads.series(asked, seconds, every, window.until).body
            frame = series_queries.table(answer, panel, bounds, every)
            if len(frame.columns) < 3:  # time and two lines
                missing.append(panel.title.lower())
            if frame.drop(columns="time").isna().all(axis=None):
                continue
            frame = frame[sorted(frame.columns, key=lambda name: (name != "time", name != THIS))]
            option = charts.ranges(frame, bounds, [], series_queries.unit(panel.metrics[0]))
            option["legend"]["show"] = True  # a single line too may be that of either
            with st.container(border=True, gap=None):
                st.markdown(f"**{panel.title}**")
                st.echarts_chart(
                    option, key=f"chart_{panel.key}", height=CHART_HEIGHT, alt=f"{panel.title} of both"
                )
    if missing:
        st.caption(f"Not known of both in this range: {', '.join(missing)}.")
