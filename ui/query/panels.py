"""Parts of the Query page: head, tiles, failure, tables.

`ui/app_pages/query.py` puts them in order; the charts are in `ui.query.chart_panels`. Each takes the server's
JSON and draws; none reads from the server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from ui.kit import columns, frames, statuses, units, widgets
from ui.kit.markup import one_line, plain, visible
from ui.query import flow

Json = Mapping[str, Any]


def head(query: Json) -> None:
    """Name, application, verdict and since when it holds."""
    with st.container(gap="xsmall"):
        app, fleet = str(query.get("app") or ""), "app_pages/fleet.py"
        widgets.breadcrumbs(("Fleet", fleet, {}), (app, fleet, {"app": app}), here=frames.label(query))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.title(plain(frames.label(query)), anchor=False, width="content")
            widgets.badge(statuses.status(query.get("status")))
            st.caption(f"{plain(query.get('app'))} · {_since(query)} · {_desired(query)}", width="content")
        st.text(visible(query.get("reason") or ""))


def _since(query: Json) -> str:
    now = time.time()
    lasted = units.span(units.since(query.get("since"), now))
    return f"for {lasted}, since {units.clock(query.get('since'), widgets.zone(), now)}"


def _desired(query: Json) -> str:
    return f"desired: {plain(query.get('desired') or 'running')}"


def superseded(query: Json) -> None:
    """Link to the query that has replaced this one."""
    if newer := query.get("superseded_by"):
        st.info(
            "A newer query of this application has replaced this one. It uses another checkpoint.",
            icon=":material/fork_right:",
        )
        if st.button("Open the newer query", key="go_newer"):
            st.query_params["query_id"] = str(newer)
            st.rerun()


def tiles(query: Json) -> None:
    """The six numbers of `numbers`."""
    with st.grid(6, min_column_width=150, gap="xsmall"):
        for label, value, note in numbers(query, time.time()):
            widgets.tile(label, value, note)


def numbers(query: Json, now: float) -> list[tuple[str, str, str]]:
    """The numbers at the head of the page as (label, value, note)."""
    # The numbers of such a query are those of its last batch.
    ended = query.get("status") in statuses.NOT_RUNNING
    seconds = query.get("lag_seconds")
    arriving = query.get("arrival_rows_per_second")
    arrival = "arrival rate unknown" if arriving is None else f"arrival rate {units.rate(arriving)}"
    watermark = units.since(query.get("watermark"), now)
    return [
        ("Backlog", *_backlog(query)),
        ("Backlog age", units.span(seconds), "unknown" if seconds is None else "of the oldest unread row"),
        (
            "Input rate",
            units.rate(query.get("input_rows_per_second")),
            "in the last batch" if ended else arrival,
        ),
        ("Last batch", units.span(query.get("batch_duration_seconds")), _against_trigger(query)),
        ("State", units.count(query.get("state_rows"), "rows"), units.size(query.get("state_bytes"))),
        ("Watermark", units.span(watermark), "no event time" if watermark is None else "behind now"),
    ]


def _backlog(query: Json) -> tuple[str, str]:
    """Rows, or batches where offsets do not count rows; and a note."""
    rows, offsets = query.get("lag_rows"), units.number(query.get("lag_offsets"))
    unknown = one_line(query.get("lag_unknown") or "no latest offset reported")
    if rows is not None:
        return units.count(rows, "rows"), "not read yet"
    if not offsets:
        return units.UNKNOWN if offsets is None else "none", unknown if offsets is None else "not read yet"
    batches = units.number(query.get("lag_batches"))
    distance = units.count(offsets, "offsets")
    return (
        (distance, unknown)
        if batches is None
        else (units.count(batches, "batches"), f"{distance}; {unknown}")
    )


def notes(query: Json) -> None:
    """What the figures of the query hide."""
    for note in query.get("notes") or []:
        st.info(plain(note), icon=":material/info:")


def host(query: Json) -> None:
    """The load of the driver's host, as a warning while it is overloaded."""
    found = (query.get("agent_info") or {}).get("host")
    text = host_text(found)
    if text and (found or {}).get("overload"):
        st.warning(plain(text), icon=":material/memory:")
    elif text:
        st.caption(plain(text))


def host_text(found: Json | None) -> str:
    """`Driver host: load 2.5 on 2 CPUs, 4 GB of 8 GB memory available.`; empty if nothing is reported."""
    if not found:
        return ""
    owner = "Host of the Connect client" if found.get("of_client") else "Driver host"
    load, cpus, limit = (units.number(found.get(name)) for name in ("load", "cpus", "cpu_limit"))
    total, throttled = found.get("memory_total"), units.number(found.get("throttled_ratio"))
    pressure = units.number(found.get("memory_pressure"))
    parts = [] if load is None else [f"load {units.count(load)} on {units.count(cpus)} CPUs"]
    parts += [] if limit is None else [f"limit {units.count(limit)} CPUs"]
    parts += [] if throttled is None else [f"throttled in {100 * throttled:.0f} % of the time"]
    available = f"{units.size(found.get('memory_available'))} of {units.size(total)} memory available"
    parts += [] if total is None else [available]
    parts += [f"all tasks waited for memory in {100 * pressure:.0f} % of the time"] if pressure else []
    overload = f" Overloaded: {found['overload']}." if found.get("overload") else ""
    return f"{owner}: {', '.join(parts)}.{overload}" if parts else ""


def _against_trigger(query: Json) -> str:
    trigger = units.number(query.get("trigger_interval_seconds"))
    duration = units.number(query.get("batch_duration_seconds"))
    if trigger:
        used = "" if duration is None else f" ({100 * duration / trigger:.0f} %)"
        return f"of a {units.span(trigger)} interval{used}"
    if trigger == 0:
        return "no trigger interval"
    return one_line(query.get("trigger") or "trigger unknown").replace("_", " ")


def failure(found: Json | None) -> None:
    """Why the query failed: Spark's condition, the root cause, what to do."""
    if not found:
        return
    with st.container(border=True, gap="xsmall", key="failure"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge("Failure", icon=":material/error:", color="red")
            st.text(visible(found.get("condition") or "unknown condition"))
        if found.get("change"):
            st.text(f"The query was changed: {visible(found['change'])}")
        st.text(visible(found.get("message") or ""))
        if found.get("root_cause"):
            st.code(visible(found["root_cause"]), language=None, wrap_lines=True)
        retry = RETRY.get(str(found.get("retry")), "")
        widgets.definition_list([("Advice", str(found.get("advice") or "")), ("Retry", retry)])
        if found.get("text"):
            with st.expander("Full text"):
                st.code(visible(found["text"]), language=None, wrap_lines=True, height=320)


RETRY = {
    "now": "Now. The cause is most likely gone.",
    "later": "After at least a minute. The service needs rest.",
    "once": "Once, after following the advice.",
    "never": "Not before the cause is removed; the query would fail again.",
}


def tables(query: Json) -> None:
    """The tabs with everything else that is known."""
    names = (
        "Runs",
        "Flow",
        "Sources and sink",
        "State",
        "Actions",
        "Status changes",
        "Properties",
        "Raw progress",
    )
    runs, way, sources, state, actions, changes, facts, raw = st.tabs(names)
    zone = widgets.zone()
    with runs:
        _table("runs", frames.runs(query), columns.runs(zone), "No runs yet.")
    with way:
        flow.draw(query)
    with sources:
        _table("sources", frames.sources(query.get("sources") or []), columns.sources(), "No progress yet.")
        _table("sink", frames.facts(query.get("sink") or {}), columns.facts("Sink"), "No sink reported.")
    with state:
        stateful = frames.operators(query.get("operators") or [])
        _table("state", stateful, columns.operators(), "No stateful operators.")
    with actions:
        requested = frames.actions(query.get("actions") or [])
        _table("actions", requested, columns.query_actions(zone), "No actions yet.")
    with changes:
        changed = frames.changes(query.get("changes") or [])
        _table("changes", changed, columns.changes(zone), "No status changes yet.")
    with facts:
        _table("facts", frames.facts(_facts(query)), columns.facts(), "No properties known.")
    with raw:
        _raw(query.get("latest_progress"))


def _facts(query: Json) -> dict[str, Any]:
    labels = {f"label {name}": value for name, value in (query.get("labels") or {}).items()}
    ids = {"query_id": query.get("query_id"), "run_id": query.get("run_id")}
    agent = {name: value for name, value in (query.get("agent_info") or {}).items() if name != "host"}
    return {**ids, **labels, **(query.get("facts") or {}), **agent}


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
