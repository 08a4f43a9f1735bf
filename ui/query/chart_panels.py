"""Charts of the Query page: the timeline, the progress reports, and the server's series.

All share one time axis. A chart that does not apply to the query (no state, no event time, no RocksDB) is not
drawn, nor is one without data in this range: a line below names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ui.kit import answers, cached_reads, charts, frames, series_queries, units, widgets
from ui.kit.markup import plain
from ui.kit.series_queries import ChartPanel
from ui.kit.time_range import TimeRange
from ui.query import batches, chart_marks, chart_range, comparison, timeline

Json = Mapping[str, Any]

CHART_HEIGHT = 230
#: The store is certain to have the events of this time; older ones may be in the lake only.
HOT_STORE_SECONDS = units.DAY_SECONDS


def draw(query: Json, window: TimeRange, now: float) -> None:
    """Read the data of this range and draw the charts."""
    identity, seconds, until = str(query.get("query_id")), window.seconds, window.until
    reports = cached_reads.progress(identity, seconds, until).body
    points = (reports or {}).get("progress", [])
    fired = (cached_reads.query_alerts(identity, seconds, until).body or {}).get("alerts", [])
    every = series_queries.step(seconds)
    answers = [
        (
            panel,
            cached_reads.series(series_queries.expression(panel, query, every), seconds, every, until).body,
        )
        for panel in series_queries.panels(query)
    ]
    data = timeline.TimelineData(query, fired, window.bounds(now), now, widgets.zone())
    past = (
        cached_reads.past_events(identity, seconds, until)
        if window.bounds(now)[0] < now - HOT_STORE_SECONDS
        else None
    )
    data = timeline.with_past_events(data, past.body) if past else data
    marks, legend = chart_marks.marks(data.query, data.alerts, changes(identity, data.window), data.window)
    draw_timeline(data, legend)
    draw_notes(reports, past)
    draw_charts(query, points, answers, data.window, marks)
    clicked = chart_range.draw(margins([panel for panel, _ in answers]), data.window)
    batches.draw(query, points, clicked)


def changes(identity: str, window: tuple[float, float]) -> Sequence[Json]:
    """What starts changed within the window. Its end is rounded up, so that refreshes share one answer."""
    before = math.ceil(window[1] / 60) * 60
    found = cached_reads.what_changed(
        identity, before=str(before), searched_seconds=f"{max(60.0, before - window[0]):.0f}"
    )
    return (found.body or {}).get("changes") or []


def margins(panels: Sequence[ChartPanel]) -> dict[str, charts.Margins]:
    """The margins of each chart's plot, by the chart's key."""
    names = (*ALT_TEXTS, *(panel.key for panel in (*panels, *comparison.PANELS)))
    others = {"timeline": timeline.MARGINS, "state": charts.STATE_MARGINS}
    return {f"chart_{name}": each for name, each in (dict.fromkeys(names, charts.MARGINS) | others).items()}


def draw_notes(reports: Json | None, past: answers.CachedRead | None = None) -> None:
    """Notes on the resolution and coverage of a long range."""
    with st.container(key="chart_notes"):  # always there, so that what follows keeps its place
        if resolution := series_queries.resolution_note(reports):
            st.caption(f":material/history: {resolution}")
        for note in dict.fromkeys(
            (
                *series_queries.coverage_notes(reports),
                *series_queries.coverage_notes(past.body if past else None),
            )
        ):
            st.caption(f":material/warning: {plain(note)}")
        if past and past.body is None and past.error and past.kind != "missing":
            st.caption(":material/warning: Runs, alerts and actions of the lake could not be read.")


def draw_timeline(data: timeline.TimelineData, legend: str) -> None:
    """The timeline over the whole width, with the legend of the marks that all charts have."""
    option = timeline.option(data)
    with st.container(border=True, gap=None):
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            st.markdown("**Timeline**", width="content")
            st.caption(" · ".join(text for text in (legend, chart_range.HINT) if text), width="content")
        alt = "Runs, statuses, alerts and actions over time"
        st.echarts_chart(option, key="chart_timeline", height=timeline.height(option), alt=alt)


def draw_charts(
    query: Json,
    points: Sequence[Json],
    answers: Sequence[tuple[ChartPanel, Json | None]],
    window: tuple[float, float],
    marks: Sequence[charts.ChartMark],
) -> None:
    """The charts in two columns: first the progress reports, then the server's series."""
    frame, trigger = frames.progress(points), units.number(query.get("trigger_interval_seconds"))
    with st.grid(2, min_column_width=420, gap="xsmall"):
        empty = [_chart("rates", "Rows per second", charts.rates(frame, window, marks), frame)]
        backlog = charts.backlog(frame, window, marks)
        known = frame.dropna(subset="lag_rows")
        empty.append(_chart("lag", "Backlog", backlog, known, has_progress=not frame.empty))
        durations = charts.durations(frame, window, marks, trigger)
        title = f"Batch duration by phase{_trigger_legend(trigger)}"
        empty.append(_chart("durations", title, durations, frame))
        if has_state(query, frame):
            known = frame.dropna(subset="state_rows")
            empty.append(_chart("state", "State", charts.state(frame, window, marks), known))
        empty += [_range(panel, answer, window, marks) for panel, answer in answers]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chart_data"):
        if texts := " ".join(dict.fromkeys(text for text in empty if text)):
            st.caption(f"Not drawn: {texts}", width="stretch")
        if not frame.empty:
            _download(str(query.get("query_id")), frame)


def _download(query_id: str, frame: pd.DataFrame) -> None:
    """The progress reports of the range as CSV; rendered when they are asked for."""
    st.download_button(
        "Data as CSV",
        lambda: frame.to_csv(index=False),
        file_name=f"{query_id}.csv",
        mime="text/csv",
        key="chart_csv",
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
    )


def has_state(query: Json, frame: pd.DataFrame) -> bool:
    """Does the query have stateful operators, now or in this range?"""
    return bool(query.get("operators")) or bool(frame["state_rows"].notna().any())


def _trigger_legend(trigger: float | None) -> str:
    return f" :red[┄] :gray[trigger {units.span(trigger)}]" if trigger else ""


ALT_TEXTS = {
    "rates": "Rows per second",
    "lag": "Backlog in rows",
    "durations": "Batch duration",
    "state": "State size",
}
NO_PROGRESS = "No progress in this range."
EMPTY_TEXTS = {"lag": "No source reports a backlog in rows."}


def empty_text(key: str, has_progress: bool) -> str:
    """Why a chart has nothing to draw. A query that failed before this range may have a backlog and state."""
    return EMPTY_TEXTS.get(key, NO_PROGRESS) if has_progress else NO_PROGRESS


def _chart(
    key: str, title: str, option: charts.Option, known: pd.DataFrame, has_progress: bool = True
) -> str:
    """Draw the chart, or return why there is none."""
    if known.empty:
        return empty_text(key, has_progress)
    with _card(title):
        st.echarts_chart(option, key=f"chart_{key}", height=CHART_HEIGHT, alt=f"{ALT_TEXTS[key]} over time")
    return ""


def _range(
    panel: ChartPanel, answer: Json | None, window: tuple[float, float], marks: Sequence[charts.ChartMark]
) -> str:
    """As `_chart`, for a series of the server."""
    every = series_queries.step(window[1] - window[0])
    frame = series_queries.table(answer, panel, window, every)
    if frame.drop(columns="time").isna().all(axis=None):
        return f"{panel.title}: no data." if panel.empty_text == series_queries.NO_DATA else panel.empty_text
    with _card(panel.title):
        option = charts.ranges(frame, window, marks, series_queries.unit(panel.metrics[0]))
        alt = f"{panel.title} over time"
        st.echarts_chart(option, key=f"chart_{panel.key}", height=CHART_HEIGHT, alt=alt)
    return ""


def _card(title: str) -> Any:
    card = st.container(border=True, gap=None, height=CHART_HEIGHT + 56)
    card.markdown(f"**{title}**", width="stretch")
    return card
