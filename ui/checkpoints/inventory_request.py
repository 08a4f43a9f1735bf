"""A fresh look at a checkpoint: asked for, awaited, and said to have failed where none comes.

The Query page's panel and the confirmation of a restart ask; `ui.kit.cached_reads` sends and reads. What was asked is kept
in the session, so that panel and confirmation wait for the same look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import streamlit as st

from ui.kit import cached_reads, units
from ui.kit.client import ClientError
from ui.kit.frames import Json

PANEL_WAIT_SECONDS = 15.0  # seconds for which the panel waits
DIALOG_WAIT_SECONDS = 10.0  # seconds for which a confirmation does
SHOW_FAILURE_SECONDS = 60.0  # seconds for which a failed look is told
SESSION_KEY = "looks"


@dataclass(frozen=True)
class InventoryRequestState:
    """`asked_at`: Unix seconds; `before`: when the look known then was taken; `refused`: why nobody looks; `came`:
    it has been seen to come."""

    asked_at: float
    before: float | None
    by: str = ""
    refused: str = ""
    came: bool = False


def send(query_id: str, before: object) -> None:
    """Ask for a look (a button's callback). `before`: `collected_at` of what is known."""
    asked_at, known = time.time(), units.moment(before)
    try:
        look = InventoryRequestState(asked_at, known, by=cached_reads.request_inventory(query_id))
    except ClientError as error:
        look = InventoryRequestState(asked_at, known, refused=str(error))
    st.session_state.setdefault(SESSION_KEY, {})[query_id] = look


def current(query_id: str) -> InventoryRequestState | None:
    return st.session_state.get(SESSION_KEY, {}).get(query_id)


def is_awaited(query_id: str, now: float, patience: float = PANEL_WAIT_SECONDS) -> bool:
    """Whether the answer is to be read as fresh as it gets."""
    look = current(query_id)
    return look is not None and not look.came and not look.refused and now - look.asked_at < patience


def refresh(query_id: str, checkpoint: Json) -> InventoryRequestState | None:
    """The look that was asked for, once and for all come when it has: an older cached answer cannot undo that."""
    look = current(query_id)
    if look and not look.came and has_arrived(look, checkpoint):
        look = st.session_state[SESSION_KEY][query_id] = replace(look, came=True)
        cached_reads.clear()
    return look


def has_arrived(look: InventoryRequestState, checkpoint: Json) -> bool:
    """Is what is known now newer than what was known when the look was asked for?"""
    taken = units.moment(checkpoint.get("collected_at"))
    return look.came or (taken is not None and (look.before is None or taken > look.before))


def is_waiting(
    look: InventoryRequestState | None, checkpoint: Json, now: float, patience: float = PANEL_WAIT_SECONDS
) -> bool:
    if look is None or look.refused or has_arrived(look, checkpoint):
        return False
    return now - look.asked_at < patience


def failure(
    look: InventoryRequestState | None, checkpoint: Json, now: float, patience: float = PANEL_WAIT_SECONDS
) -> str:
    """Why there is no fresh look, in one sentence; empty while there may be one, and when there is."""
    if look is None or has_arrived(look, checkpoint) or now - look.asked_at > patience + SHOW_FAILURE_SECONDS:
        return ""
    if look.refused:
        return f"Nobody can look now: {look.refused}"
    if now - look.asked_at < patience:
        return ""
    why = f": {checkpoint['trouble']}" if checkpoint.get("trouble") else ""
    return f"{collector_name(look)} brought no newer look within {patience:.0f} s{why}"


def collector_name(look: InventoryRequestState) -> str:
    return {"agent": "The driver's agent", "server": "The server"}.get(look.by, "Nobody")
