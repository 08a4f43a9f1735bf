"""Rules page: the rule groups, each rule with its expression, state and last evaluation.

The filters are in the address (`?find=&rule_state=&page=`), so that a link shows the same rules. They have
names of their own, because a page cannot set a parameter that a widget of another page is bound to.
"""

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.alerting import replay_panel, rule_panels, selection
from ui.kit import cached_reads, statuses, widgets
from ui.kit.frames import Json

MAX_RULES_PER_PAGE = 50
SEARCHED_FIELDS = ("name", "expr", "labels", "group", "error")


def matching_rules(groups: Sequence[Json]) -> list[tuple[Json, int, Json]]:
    """Group, index in the group, and rule, for the rules that match the filters."""
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    with left:
        search = widgets.search_input("find", "Search name, expression, label or group")
    with right:
        states = widgets.filter_select("State", list(statuses.RULE_STATES), "rule_state", "All states")
    return [
        (group, index, rule)
        for group in groups
        for index, rule in enumerate(group.get("rules") or ())
        if not states or selection.rule_state(rule) in states
        if selection.matching_text([{**rule, "group": group.get("name")}], search, *SEARCHED_FIELDS)
    ]


def page_of(found: Sequence[tuple[Json, int, Json]]) -> Sequence[tuple[Json, int, Json]]:
    """The rules of the chosen page, few enough for quick drawing."""
    if len(found) <= MAX_RULES_PER_PAGE:
        return found
    number = st.pagination(-(-len(found) // MAX_RULES_PER_PAGE), key="page", bind="query-params")
    return found[(number - 1) * MAX_RULES_PER_PAGE : number * MAX_RULES_PER_PAGE]


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
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
    found = matching_rules(groups)  # before the tiles: on a cold start the filters read the address
    with above:
        rule_panels.state_tiles(rule_panels.counts(groups), st.session_state.get("rule_state") or [])
    if not found:
        st.caption("No rule matches the filters.")
    drawn = ""
    for group, index, rule in page_of(found):
        if group["key"] != drawn:
            rule_panels.group_head(group, now)
            drawn = group["key"]
        rule_panels.rule(rule, group, f"rule_{group['key']}_{index}", now)


stamp_place = widgets.header("Rules")
replay_panel.draw()
live(stamp_place)
