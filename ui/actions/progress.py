"""The progress of an action: its steps while it is under way, its outcome once it is final."""

from __future__ import annotations

import streamlit as st

from ui.checkpoints import findings
from ui.kit import frames, statuses, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import one_line, visible


def action_progress(action: Json, now: float) -> None:
    """Draw an action: its steps while it is under way, the outcome sentence once it is final."""
    with st.container(border=True, gap="xsmall", key=f"action_{str(action.get('id'))[:36]}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.badge(statuses.action_state(action.get("state")))
            st.text(visible(request_sentence(action)))
            st.caption(f"{steps(action)} · {_elapsed(action, now)}", width="content")
        st.text(visible(_outcome(action)))
        findings.draw_refusal(action)


def steps(action: Json) -> str:
    """Requested › Delivered › Running › Done in Markdown; the steps to come are gray."""
    state = str(action.get("state"))
    by_server = state == "refused" and not action.get("delivered_at")  # no driver has received it
    here = action.get("action") in frames.CHECKPOINT_CHANGES
    path = ["requested"] if by_server else ["requested", "running"] if here else list(statuses.OPEN_STATES)
    reached = path.index(state) if state in path else len(path)
    labels = [statuses.action_state(name).label for name in path]
    end = "Done" if state in path else statuses.action_state(state).label
    return " › ".join(
        f"**{label}**" if index == reached else label if index < reached else f":gray[{label}]"
        for index, label in enumerate([*labels, end])
    )


def request_sentence(action: Json) -> str:
    """`Restart with drain requested by ada: memory grows`."""
    reason = f": {action['request_reason']}" if action.get("request_reason") else ""
    requester = action.get("actor") or "an unknown person"
    return f"{frames.action_label(action).capitalize()} requested by {requester}{reason}"


def _elapsed(action: Json, now: float) -> str:
    done = frames.action_seconds(action)
    return units.span(units.since(action.get("requested_at"), now) if done is None else done)


def _outcome(action: Json) -> str:
    """This page's sentence while the action is under way, the server's once it is final."""
    waiting = {
        "requested": one_line(action.get("reason") or "Waiting for the driver to fetch the command."),
        "delivered": "The driver has received the command.",
        "running": "The driver has carried out the command. Waiting for the first batch of the new run.",
    }
    state = str(action.get("state"))
    if action.get("action") in frames.CHECKPOINT_CHANGES and statuses.is_open(state):
        return f"{one_line(action.get('reason') or 'waiting for another change').capitalize()} …"
    return waiting.get(state) or frames.outcome(action) or statuses.action_state(state).label
