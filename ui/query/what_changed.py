"""What changed before a query's trouble began, on the Query page. `ui/app_pages/query.py` calls `draw`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from ui.kit import cached_reads, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain

#: Statuses whose beginning the server knows as the beginning of trouble.
TROUBLE = frozenset({"failed", "lost", "unreachable", "stuck", "lagging", "backing_off", "busy"})
NOTHING = "No start, no other driver, plan, option, version or label, and no other input volume."


def draw(query: Json, alerts: Sequence[Json]) -> None:
    """The changes before the query was first in trouble, or before the first of its firing alerts; else nothing."""
    with st.container():  # always there, so that what follows keeps its place
        before = "" if query.get("status") in TROUBLE else first_fired(alerts)
        if before is None:
            return
        since = {"before": before} if before else {}
        found = cached_reads.what_changed(str(query.get("query_id")), **since).body or {}
        if not found.get("before"):
            return
        with st.container(border=True, gap="xsmall", key="what_changed"):
            began = units.clock(found["before"], widgets.zone(), time.time())
            searched = units.span(found.get("searched_seconds"))
            st.markdown(
                f"**What changed** :gray[in the {searched} before {plain(began)}, when the trouble began]"
            )
            if rows := listed(found):
                widgets.definition_list(rows, width=130)
            else:
                st.caption(NOTHING)


def first_fired(alerts: Sequence[Json]) -> str | None:
    """When the first of these alerts began to fire; None without any."""
    times = [str(alert["fired_at"]) for alert in alerts if alert.get("fired_at")]
    return min(times, key=lambda at: units.moment(at) or 0.0, default=None)


def listed(found: Json) -> list[tuple[str, str]]:
    """How long before the trouble, and the sentence, of each change."""
    began = units.moment(found.get("before")) or 0.0
    return [(_before(began, each), str(each.get("sentence"))) for each in found.get("changes") or []]


def _before(began: float, change: Json) -> str:
    if change.get("kind") == "input":
        return "Input"
    earlier = began - (units.moment(change.get("at")) or began)
    return f"{units.span(earlier)} before" if earlier >= 1 else "at that time"
