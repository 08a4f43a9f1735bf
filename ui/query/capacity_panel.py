"""Capacity panel of the Query page: how much more the query can carry, and folded below it why, runways and advice.

`ui/app_pages/query.py` calls `draw` at each refresh. Whether it is unfolded is in the address (`?capacity=true`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import streamlit as st

from ui.kit import cached_reads, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

PARTS = {
    "source": "Finding new data",
    "planning": "Planning",
    "logs": "Offset and commit logs",
    "tasks": "Tasks",
    "state_commit": "Committing state",
    "skewed_partition": "One partition",
    "other": "Other",
}


def draw(query: Json) -> None:
    """Draw the panel in a container of its own, so that what follows keeps its place."""
    with st.container():
        found = cached_reads.capacity(str(query.get("query_id"))).body
        if found is None:
            return
        if not has_figures(found):
            st.caption(f":material/speed: Capacity: {plain(found.get('unknown') or 'not known.')}")
            return
        with st.container(border=True, gap="xsmall", key="capacity_panel"):
            _head(found)
            folded = st.expander(
                "Details", key="capacity", type="compact", on_change="rerun", bind="query-params"
            )
            if folded.open:
                with folded:
                    _details(found)


def has_figures(found: Json) -> bool:
    """Whether there is more to show than why nothing is known."""
    return any(found.get(name) for name in ("throughput", "retention", "state", "advice"))


def _head(found: Json) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Capacity**", width="content")
        if count := len(found.get("advice") or []):
            st.badge(f"Advice: {count}", icon=":material/lightbulb:", color="yellow")
        st.caption(plain(" · ".join(headline(found))), width="stretch")


def headline(found: Json) -> list[str]:
    """The figures in short: load, headroom, bottleneck, and what runs out first."""
    load, slow = found.get("throughput") or {}, found.get("bottleneck") or {}
    parts = [f"busy {100 * load['busy_ratio']:.0f} %"] if load else []
    spare = units.number(load.get("headroom_rows_per_second"))
    if spare is not None:
        least = "at least " if load.get("capacity_is_lower_bound") else ""
        parts.append(
            f"headroom {least}{units.rate(spare)}"
            if spare >= 0
            else f"{units.rate(-spare)} short of the demand"
        )
    parts += [f"bottleneck: {PARTS.get(str(slow['part']), 'other').lower()}"] if slow else []
    parts += [f"{what} in {units.span(seconds)}" for what, seconds in ends(found)]
    return parts or [str(found.get("unknown") or "")]


def ends(found: Json) -> Iterator[tuple[str, float]]:
    """What ends at the present rate, and in how many seconds: backlog, unread rows, the state below its limit."""
    known = (
        ("backlog read", (found.get("throughput") or {}).get("catch_up_seconds")),
        ("unread rows deleted", (found.get("retention") or {}).get("left_seconds")),
        *(
            (f"state limit ({s['unit']}) reached", s.get("earliest_seconds"))
            for s in found.get("state") or []
        ),
    )
    for what, seconds in known:
        if units.number(seconds) is not None:
            yield what, float(seconds)


def _details(found: Json) -> None:
    if rows := sentences(found):
        widgets.definition_list(rows)
    for each in found.get("advice") or []:
        with st.container(gap=None):
            now = "not set" if each.get("now") is None else f"now {each['now']}"
            st.markdown(
                f":material/lightbulb: **{plain(each['setting'])}** ({plain(now)}): {plain(each['advice'])}"
            )
            st.text(visible(each["reason"]))
    parts = (found.get("bottleneck") or {}).get("parts") or []
    if parts:
        st.dataframe(
            part_rows(parts),
            key="capacity_parts",
            hide_index=True,
            alt="Parts of the mean batch",
            width="content",
        )


def sentences(found: Json) -> list[tuple[str, str]]:
    """Label and sentence of each part."""
    named = [("Load", found.get("throughput")), ("Bottleneck", found.get("bottleneck"))]
    named += [
        ("Retention", found.get("retention")),
        *(("State", runway) for runway in found.get("state") or []),
    ]
    unknown = [("Load", str(found["unknown"]))] if found.get("unknown") else []
    return unknown + [(label, str(part["sentence"])) for label, part in named if part]


def part_rows(parts: Sequence[Json]) -> pd.DataFrame:
    """The parts of the mean batch as a table."""
    return pd.DataFrame(
        {
            "Part": [PARTS.get(str(part["part"]), str(part["part"])) for part in parts],
            "Mean": [units.span(part["seconds"]) for part in parts],
            "Of the batch": [f"{100 * part['ratio']:.0f} %" for part in parts],
        }
    )
