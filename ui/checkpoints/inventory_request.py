"""Request a new inventory of a checkpoint, wait for it, and report when none arrives.

The Query page's panel and the confirmation of a restart use it; `ui.kit.cached_reads` sends and reads. The
state is kept in the session, so that panel and confirmation wait for the same inventory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import streamlit as st

from ui.kit import cached_reads, units
from ui.kit.answers import ClientError
from ui.kit.frames import Json

PANEL_WAIT_SECONDS = 15.0  # how long the panel waits for an inventory
DIALOG_WAIT_SECONDS = 10.0  # how long a confirmation waits for one
SHOW_FAILURE_SECONDS = 60.0  # how long a failed request is reported
SESSION_KEY = "inventory_requests"


@dataclass(frozen=True)
class InventoryRequestState:
    """A request for an inventory.

    `requested_at`: Unix seconds. `previous_at`: time of the inventory known then. `collector`: who takes it
    ("agent" or "server"). `refused`: why nobody can take it. `arrived`: a newer inventory has been seen.
    """

    requested_at: float
    previous_at: float | None
    collector: str = ""
    refused: str = ""
    arrived: bool = False


def send(query_id: str, collected_at: object) -> None:
    """Request an inventory (a button's callback). `collected_at`: time of the known one."""
    requested_at, known = time.time(), units.moment(collected_at)
    try:
        request = InventoryRequestState(
            requested_at, known, collector=cached_reads.request_inventory(query_id)
        )
    except ClientError as error:
        request = InventoryRequestState(requested_at, known, refused=str(error))
    st.session_state.setdefault(SESSION_KEY, {})[query_id] = request


def current(query_id: str) -> InventoryRequestState | None:
    """The last request for this query."""
    return st.session_state.get(SESSION_KEY, {}).get(query_id)


def is_awaited(query_id: str, now: float, wait: float = PANEL_WAIT_SECONDS) -> bool:
    """Whether to read the checkpoint with the short TTL."""
    request = current(query_id)
    return (
        request is not None
        and not request.arrived
        and not request.refused
        and now - request.requested_at < wait
    )


def refresh(query_id: str, checkpoint: Json) -> InventoryRequestState | None:
    """The last request, marked as arrived once a newer inventory is seen.

    An older cached answer cannot undo the mark.
    """
    request = current(query_id)
    if request and not request.arrived and has_arrived(request, checkpoint):
        request = st.session_state[SESSION_KEY][query_id] = replace(request, arrived=True)
        cached_reads.clear()
    return request


def has_arrived(request: InventoryRequestState, checkpoint: Json) -> bool:
    """Is the known inventory newer than the one known when the request was sent?"""
    taken = units.moment(checkpoint.get("collected_at"))
    return request.arrived or (
        taken is not None and (request.previous_at is None or taken > request.previous_at)
    )


def is_waiting(
    request: InventoryRequestState | None, checkpoint: Json, now: float, wait: float = PANEL_WAIT_SECONDS
) -> bool:
    """Is a requested inventory still expected?"""
    if request is None or request.refused or has_arrived(request, checkpoint):
        return False
    return now - request.requested_at < wait


def failure(
    request: InventoryRequestState | None, checkpoint: Json, now: float, wait: float = PANEL_WAIT_SECONDS
) -> str:
    """Why there is no new inventory, in one sentence; empty while one is expected or has arrived."""
    if (
        request is None
        or has_arrived(request, checkpoint)
        or now - request.requested_at > wait + SHOW_FAILURE_SECONDS
    ):
        return ""
    if request.refused:
        return f"The checkpoint cannot be checked now: {request.refused}"
    if now - request.requested_at < wait:
        return ""
    why = f": {checkpoint['trouble']}" if checkpoint.get("trouble") else ""
    return f"{collector_name(request)} returned no newer inventory within {wait:.0f} s{why}"


def collector_name(request: InventoryRequestState) -> str:
    """Who takes the inventory."""
    return {"agent": "The driver's agent", "server": "The server"}.get(request.collector, "The collector")
