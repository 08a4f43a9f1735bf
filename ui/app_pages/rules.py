"""Rules: the groups of rules that raise alerts, each with its expression, its state and its last evaluation.

The filters live in the address (`?find=&rule_state=&page=`), so that what is seen can be sent to somebody. They have
names of their own: a page may not set what another page's widget is bound to.
"""

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.alerting import rule_panels, selection
from ui.kit import cached_reads, statuses, widgets
from ui.kit.frames import Json

A_PAGE = 50  # rules
SEARCHED = ("name", "expr", "labels", "group", "error")


def filtered(groups: Sequence[Json]) -> list[tuple[Json, int, Json]]:
    """Group, place in it, and rule, for those that pass the filters of the address."""
    search, state = st.columns([2, 1], vertical_alignment="bottom")
    with search:
        words = widgets.search_input("find", "Search name, expression, label or group")
    with state:
        states = widgets.filter_select("State", list(statuses.RULE_STATES), "rule_state", "All states")
    return [
        (group, place, rule)
        for group in groups
        for place, rule in enumerate(group.get("rules") or ())
        if not states or selection.rule_state(rule) in states
        if selection.matching_text([{**rule, "group": group.get("name")}], words, *SEARCHED)
    ]


def page_of(found: Sequence[tuple[Json, int, Json]]) -> Sequence[tuple[Json, int, Json]]:
    """So many that the page stays quick; the others on further pages."""
    if len(found) <= A_PAGE:
        return found
    number = st.pagination(-(-len(found) // A_PAGE), key="page", bind="query-params")
    return found[(number - 1) * A_PAGE : number * A_PAGE]


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    reading, now = cached_reads.rules(), time.time()
    with stamp:
        widgets.as_of(reading)
    widgets.banner(reading)
    if reading.body is None:
        return
    groups = reading.body.get("groups", [])
    if not groups:
        st.caption("No rules are loaded. `controlplane serve --rules FILE…` loads some.")
        return
    above = st.container()
    found = filtered(groups)  # first: on a cold start it is they who read the address
    with above:
        rule_panels.state_tiles(rule_panels.counts(groups), st.session_state.get("rule_state") or [])
    if not found:
        st.caption("No rule matches.")
    drawn = ""
    for group, place, rule in page_of(found):
        if group["key"] != drawn:
            rule_panels.group_head(group, now)
            drawn = group["key"]
        rule_panels.rule(rule, f"rule_{group['key']}_{place}", now)


live(widgets.header("Rules"))
