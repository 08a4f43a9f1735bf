"""The progress of an action: its steps while it is under way, its outcome once it is final."""

from __future__ import annotations

import streamlit as st

from ui.checkpoints import findings
from ui.kit import frames, statuses, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import one_line, visible


def action_progress(action: Json, now: float) -> None:
    """Where an action stands: its steps while it is under way, the outcome sentence when it is final."""
    with st.container(border=True, gap="xsmall", key=f"action_{str(action.get('id'))[:36]}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.badge(statuses.action_state(action.get("state")))
            st.text(visible(_asked(action)))
            st.caption(f"{steps(action)} · {_elapsed(action, now)}", width="content")
        st.text(visible(_outcome(action)))
        findings.draw_refusal(action)


def steps(action: Json) -> str:
    """Requested › Delivered › Running › the end, in Markdown; what lies ahead is gray."""
    state = str(action.get("state"))
    turned_away = state == "refused" and not action.get("delivered_at")  # by the server: no driver saw it
    path = ["requested"] if turned_away else list(statuses.OPEN_STATES)
    reached = path.index(state) if state in path else len(path)
    words = [statuses.action_state(name).word for name in path]
    end = "Done" if state in path else statuses.action_state(state).word
    return " › ".join(
        f"**{word}**" if index == reached else word if index < reached else f":gray[{word}]"
        for index, word in enumerate([*words, end])
    )


def _asked(action: Json) -> str:
    why = f": {action['request_reason']}" if action.get("request_reason") else ""
    who = action.get("actor") or "somebody"
    return f"{frames.action_label(action).capitalize()}, asked by {who}{why}"


def _elapsed(action: Json, now: float) -> str:
    done = frames.action_seconds(action)
    return units.span(units.since(action.get("requested_at"), now) if done is None else done)


def _outcome(action: Json) -> str:
    """Our words while it is under way, the server's once it is final."""
    waiting = {
        "requested": one_line(action.get("reason") or "Waiting for the driver to fetch it."),
        "delivered": "The driver has it.",
        "running": "The driver has done its part; waiting for the first batch of the new run.",
    }
    state = str(action.get("state"))
    return waiting.get(state) or frames.outcome(action) or statuses.action_state(state).word
