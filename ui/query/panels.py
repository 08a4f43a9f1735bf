"""The parts of the Query page: head, tiles, failure, tables, and the progress of an action.

`ui/app_pages/query.py` puts them in order; the charts are in `ui.query.chart_panels`. Each takes the server's JSON
and draws; none asks the server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from ui.kit import action_checks, columns, frames, statuses, units, widgets
from ui.kit.markup import one_line, plain, visible

Json = Mapping[str, Any]


def head(query: Json) -> None:
    """Name, application, verdict and since when."""
    with st.container(gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.title(plain(frames.label(query)), anchor=False, width="content")
            widgets.badge(statuses.status(query.get("status")))
            st.caption(f"{plain(query.get('app'))} · {_since(query)}", width="content")
        st.text(visible(query.get("reason") or ""))


def _since(query: Json) -> str:
    now = time.time()
    lasted = units.span(units.since(query.get("since"), now))
    return f"for {lasted}, since {units.clock(query.get('since'), widgets.zone(), now)}"


def superseded(query: Json) -> None:
    """A newer checkpoint of the same application and name: lead there."""
    if newer := query.get("superseded_by"):
        st.info("A newer checkpoint carries this query's name now.", icon=":material/fork_right:")
        if st.button("Go to the newer one", key="go_newer"):
            st.query_params["query_id"] = str(newer)
            st.rerun()


def tiles(query: Json) -> None:
    with st.grid(6, min_column_width=150, gap="xsmall"):
        for label, value, note in numbers(query, time.time()):
            widgets.tile(label, value, note)


def numbers(query: Json, now: float) -> list[tuple[str, str, str]]:
    """The six numbers at the head of the page: what it is, how much, measured against what."""
    ended = query.get("status") in (
        *action_checks.ENDED_STATUSES,
        "lost",
    )  # then they are the last batch's, not now's
    lag, seconds = query.get("lag_rows"), query.get("lag_seconds")
    arriving = query.get("arrival_rows_per_second")
    arrive = "arrivals not known" if arriving is None else f"{units.rate(arriving)} arrive"
    watermark = units.since(query.get("watermark"), now)
    behind = "when last heard" if ended else "behind the head"
    oldest = "when last heard" if ended else "oldest unread row"
    return [
        ("Lag", units.count(lag, "rows"), "no source tells its head" if lag is None else behind),
        ("Lag in time", units.span(seconds), "not known" if seconds is None else oldest),
        ("Read", units.rate(query.get("input_rows_per_second")), _last(arrive, ended)),
        ("Batch duration", units.span(query.get("batch_duration_seconds")), _against_trigger(query)),
        ("State", units.count(query.get("state_rows"), "rows"), units.size(query.get("state_bytes"))),
        ("Watermark", units.span(watermark), "no event time" if watermark is None else "behind now"),
    ]


def _last(note: str, ended: bool) -> str:
    return "in its last batch" if ended else note


def _against_trigger(query: Json) -> str:
    trigger = units.number(query.get("trigger_interval_seconds"))
    duration = units.number(query.get("batch_duration_seconds"))
    if trigger:
        used = "" if duration is None else f" ({100 * duration / trigger:.0f} %)"
        return f"of a {units.span(trigger)} trigger{used}"
    if trigger == 0:
        return "one batch after the other"
    return one_line(query.get("trigger") or "trigger unknown").replace("_", " ")


def failure(found: Json | None) -> None:
    """Why it failed: Spark's condition, the root cause, what to do."""
    if not found:
        return
    with st.container(border=True, gap="xsmall", key="failure"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge("Failure", icon=":material/error:", color="red")
            st.text(visible(found.get("condition") or "unknown condition"))
        st.text(visible(found.get("message") or ""))
        if found.get("root_cause"):
            st.code(visible(found["root_cause"]), language=None, wrap_lines=True)
        again = RETRY.get(str(found.get("retry")), "")
        widgets.definition_list([("Advice", str(found.get("advice") or "")), ("Try again", again)])
        if found.get("text"):
            with st.expander("Full text"):
                st.code(visible(found["text"]), language=None, wrap_lines=True, height=320)


RETRY = {
    "now": "now: the cause has most likely passed",
    "once": "once, after a look at the advice",
    "never": "not before the cause is removed: it will fail again",
}


def tables(query: Json) -> None:
    """Everything else there is to know, one tab a question."""
    names = ("Runs", "Sources and sink", "State", "Actions", "Status changes", "Facts", "Raw progress")
    runs, sources, state, actions, changes, facts, raw = st.tabs(names)
    zone = widgets.zone()
    with runs:
        _table("runs", frames.runs(query.get("runs") or []), columns.runs(zone), "No run is known.")
    with sources:
        _table("sources", frames.sources(query.get("sources") or []), columns.sources(), "No progress yet.")
        _table("sink", frames.facts(query.get("sink") or {}), columns.facts("Sink"), "No sink reported.")
    with state:
        stateful = frames.operators(query.get("operators") or [])
        _table("state", stateful, columns.operators(), "No stateful operator.")
    with actions:
        asked = frames.actions(query.get("actions") or [])
        _table("actions", asked, columns.query_actions(zone), "Nobody asked for anything yet.")
    with changes:
        seen = frames.changes(query.get("changes") or [])
        _table("changes", seen, columns.changes(zone), "No change since it was first seen.")
    with facts:
        _table("facts", frames.facts(_facts(query)), columns.facts(), "Nothing known.")
    with raw:
        _raw(query.get("latest_progress"))


def _facts(query: Json) -> dict[str, Any]:
    labels = {f"label {name}": value for name, value in (query.get("labels") or {}).items()}
    ids = {"query_id": query.get("query_id"), "run_id": query.get("run_id")}
    return {**ids, **labels, **(query.get("facts") or {}), **(query.get("agent_info") or {})}


def _raw(progress: Json | None) -> None:
    if progress:
        st.json(progress, expanded=False)
    else:
        st.caption("No progress yet.")


def _table(name: str, frame: pd.DataFrame, config: dict[str, Any], empty: str) -> None:
    if frame.empty:
        st.caption(empty)
        return
    st.dataframe(
        frame,
        key=f"table_{name}",
        column_config=config,
        hide_index=True,
        placeholder="–",
        alt=f"{name} of this query",
    )
