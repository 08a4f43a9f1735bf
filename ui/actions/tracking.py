"""The action that a viewer requested, tracked until it is final.

`ui.actions.dialogs` stores it when the server has accepted it; the Query page shows it at its head.
"""

from __future__ import annotations

import time

import streamlit as st

from ui.actions import progress
from ui.kit import cached_reads, statuses, units
from ui.kit.frames import Json

POLL_SECONDS = 1.0
SHOW_OUTCOME_SECONDS = 600.0  # how long the outcome stays on the page


def track(query_id: str, action_id: str) -> None:
    """Track this action of the query from now on."""
    st.session_state.setdefault("tracked_actions", {})[query_id] = action_id


def tracked(query_id: str) -> str | None:
    """Id of the action that the viewer requested for this query."""
    return st.session_state.get("tracked_actions", {}).get(query_id)


def draw_other(query: Json) -> None:
    """The action under way that somebody else requested."""
    action = query.get("action")
    if action and action.get("id") != tracked(str(query.get("query_id"))):
        progress.action_progress(action, time.time())


def draw_tracked(query_id: str) -> None:
    """The tracked action, every second; once it is final the page is redrawn with the outcome."""
    action_id = tracked(query_id)
    if action_id:
        final = st.session_state.get("seen_final") == action_id
        st.fragment(run_every=None if final else POLL_SECONDS)(_progress)(query_id, action_id, final)


def _progress(query_id: str, action_id: str, final: bool) -> None:
    action = (cached_reads.action(action_id).body or {}).get("action")
    now = time.time()
    if not action:
        return
    if (units.since(action.get("finished_at"), now) or 0.0) > SHOW_OUTCOME_SECONDS:
        st.session_state["tracked_actions"].pop(query_id, None)
        return
    progress.action_progress(action, now)
    if not final and not statuses.is_open(action["state"]):
        st.session_state["seen_final"] = action_id
        cached_reads.clear()
        st.rerun()
