"""The action that a viewer asked for and watches, until it is final.

`ui.actions.dialogs` notes it down when the server has taken it; the Query page shows it at its head.
"""

from __future__ import annotations

import time

import streamlit as st

from ui.actions import progress
from ui.kit import cached_reads, statuses, units
from ui.kit.frames import Json

POLL_SECONDS = 1.0  # seconds
SHOW_OUTCOME_SECONDS = 600.0  # seconds that an outcome stays on the page


def track(query_id: str, action_id: str) -> None:
    st.session_state.setdefault("followed", {})[query_id] = action_id


def tracked(query_id: str) -> str | None:
    return st.session_state.get("followed", {}).get(query_id)


def draw_other(query: Json) -> None:
    """An action under way that somebody else asked for."""
    action = query.get("action")
    if action and action.get("id") != tracked(str(query.get("query_id"))):
        progress.action_progress(action, time.time())


def draw_tracked(query_id: str) -> None:
    """Its steps second by second; once it is final the page is drawn again, with the outcome and no haste."""
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
        st.session_state["followed"].pop(query_id, None)
        return
    progress.action_progress(action, now)
    if not final and not statuses.is_open(action["state"]):
        st.session_state["seen_final"] = action_id
        cached_reads.clear()
        st.rerun()
