"""Parts of the Rules page: a group's head, and each rule with its expression, state and last evaluation.

`ui/app_pages/rules.py` puts them in order. Each takes the server's JSON and draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.alerting import frames, replay_panel, selection
from ui.kit import statuses, units, widgets
from ui.kit.markup import plain, truncate, visible

Json = Mapping[str, Any]

MAX_EXPRESSION_CHARS = 5000  # the file has the rest
MAX_LABELS = 8


def state_tiles(counted: Mapping[str, int], chosen: Sequence[str]) -> None:
    """One tile per state, worst first; a click filters by it, another click removes the filter."""
    with st.grid(len(statuses.RULE_STATES), min_column_width=120, gap="xsmall"):
        for state, style in statuses.RULE_STATES.items():
            count = counted.get(state, 0)
            digits = f"**{count:d}**"
            colored = digits if state in chosen else f":{style.color if count else 'gray'}[{digits}]"
            st.button(
                f"{colored} {style.label}",
                key=f"tile_rule_{state}",
                type="primary" if state in chosen else "secondary",
                width="stretch",
                on_click=toggle,
                args=(state,),
            )


def toggle(state: str) -> None:
    """Add the state to the filter or remove it (a button's callback)."""
    chosen = st.session_state.get("rule_state") or []
    others = [name for name in chosen if name != state]
    st.session_state["rule_state"] = others if state in chosen else [*chosen, state]


def group_head(group: Json, now: float) -> None:
    """A group's name, schedule and last evaluation, with its missed evaluations."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(plain(group.get("name")), anchor=False, width="content")
        st.caption(plain(schedule(group, now)), width="content")
        if missed := int(group.get("missed") or 0):
            st.badge(
                f"{missed} missed evaluation{'' if missed == 1 else 's'}",
                icon=":material/running_with_errors:",
                color="orange",
                help="An evaluation took longer than the interval, or the server was down.",
            )
        st.caption(plain(group.get("file") or ""), width="stretch", text_alignment="right")


def schedule(group: Json, now: float) -> str:
    """`every 15 s · evaluated just now in 9 ms`."""
    every = units.span(group.get("interval_seconds"))
    took = units.span(group.get("evaluation_seconds"))
    return f"every {every} · evaluated {frames.ago(group.get('evaluated_at'), now)} in {took}"


def rule(found: Json, group: Json, key: str, now: float) -> None:
    """One rule of its group. `key`: the same through refreshes."""
    with st.container(border=True, gap="xsmall", key=key):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.badge(statuses.rule_state(selection.rule_state(found)))
            st.markdown(f"**{plain(found.get('name'))}**", width="content")
            st.caption(duration_clauses(found), width="content")
            _labels(found.get("labels") or {})
            st.caption(plain(evaluation(found, now)), width="stretch", text_alignment="right")
            _to_alerts(found)
        if found.get("meaning"):
            st.text(visible(found["meaning"]))
        with st.expander("Expression", key=f"expression_{key}", type="compact"):
            expression = truncate(found.get("expr") or "", MAX_EXPRESSION_CHARS)
            st.code(expression, language="promql", wrap_lines=True)
            with st.container(horizontal=True, gap="small"):
                replay_panel.button(found, group, key)
                if found.get("meaning"):
                    widgets.page_link("Runbook", "runbook", ":material/menu_book:", name=str(found["name"]))
        if found.get("error"):
            st.error(plain(truncate(found["error"], 1000)), icon=":material/report:")


def duration_clauses(found: Json) -> str:
    """The rule's `for` and `keep_firing_for`; empty for a recording rule."""
    wait, keep = units.number(found.get("for_seconds")), units.number(found.get("keep_firing_for_seconds"))
    parts = [
        f"for {units.span(wait)}" if wait else "",
        f"keeps firing {units.span(keep)}" if keep else "",
    ]
    immediate = "fires immediately" if found.get("kind") == "alert" else ""
    return " · ".join(part for part in parts if part) or immediate


def _labels(labels: Json) -> None:
    for name, value in list(labels.items())[:MAX_LABELS]:
        st.badge(plain(truncate(f"{name}={value}", 80)), color="gray")


def evaluation(found: Json, now: float) -> str:
    """`4 s ago in 2 ms · line 131`."""
    if not found.get("evaluated_at"):
        return "not evaluated yet"
    took = units.span(found.get("evaluation_seconds"))
    return f"{frames.ago(found.get('evaluated_at'), now)} in {took} · line {found.get('line') or '?'}"


def _to_alerts(found: Json) -> None:
    """Links to the alerts of this rule."""
    for state in ("firing", "pending"):
        count, params = int(found.get(state) or 0), {"view": state, "words": str(found.get("name"))}
        if count:
            icon = ":material/arrow_forward:"
            st.page_link("app_pages/alerts.py", label=f"{count} {state}", icon=icon, query_params=params)
    if found.get("kind") == "alert":
        params = {"view": "history", "words": str(found.get("name"))}
        st.page_link("app_pages/alerts.py", label="History", icon=":material/history:", query_params=params)


def counts(groups: Sequence[Json]) -> dict[str, int]:
    """Number of rules in each state of `statuses.RULE_STATES`."""
    found = dict.fromkeys(statuses.RULE_STATES, 0)
    for group in groups:
        for rule in group.get("rules") or ():
            state = selection.rule_state(rule)
            found[state] = found.get(state, 0) + 1
    return found
