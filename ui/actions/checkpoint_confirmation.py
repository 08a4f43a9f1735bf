"""What the confirmation of a start or restart says of the checkpoint, looked at anew while the person reads.

`ui.actions.dialogs` calls `draw` in a part of the dialog that runs every second; the answer says whether a broken
checkpoint stands in the way. The dialog can be used while the look is under way: the server looks again by itself.
"""

from __future__ import annotations

import time

import streamlit as st

from ui.checkpoints import assessment, findings, inventory_request
from ui.checkpoints.assessment import StartForecast
from ui.kit import cached_reads, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

FORCE_LABEL = "In spite of it: start although the checkpoint is broken"


def request_check(query_id: str) -> None:
    """Ask for a look: once for each dialog, when it opens."""
    before = (cached_reads.checkpoint(query_id).body or {}).get("checkpoint") or {}
    inventory_request.send(query_id, before.get("collected_at"))


def draw(query: Json) -> StartForecast | None:
    """The verdict; None where the query has no checkpoint to speak of, or the server knows of none."""
    identity, now = str(query.get("query_id")), time.time()
    if (query.get("facts") or {}).get("checkpoint_is_temporary"):
        return None
    reading = cached_reads.checkpoint(identity, quick=inventory_request.is_awaited(identity, now))
    look = inventory_request.refresh(identity, (reading.body or {}).get("checkpoint") or {})
    if reading.body is None and reading.kind == "missing" and (look is None or look.refused):
        return None
    checkpoint = (reading.body or {}).get("checkpoint") or {}
    patience = inventory_request.DIALOG_WAIT_SECONDS
    waiting = inventory_request.is_waiting(look, checkpoint, now, patience)
    trouble = inventory_request.failure(look, checkpoint, now, patience)
    foretold = assessment.forecast_start(reading.body, waiting, trouble)
    with st.container(border=True, gap="xsmall", key="foretold"):
        _head(foretold, checkpoint, now)
        st.text(visible(foretold.sentence))
        findings.draw_brief(foretold.findings)
        if trouble and foretold.known:  # else it is the sentence
            st.caption(f":orange[:material/warning:] {plain(trouble)}")
    return foretold


def _head(foretold: StartForecast, checkpoint: Json, now: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Checkpoint**", width="content")
        widgets.badge(foretold.look)
        said = assessment.last_check(checkpoint, now)
        if foretold.waiting:
            said = f":material/hourglass_top: looking again … {plain(said)}"
        st.caption(said if foretold.waiting else plain(said), width="content")


def force_checkbox() -> bool:
    """The tick by which a broken checkpoint is overridden."""
    return st.checkbox(FORCE_LABEL, key="ask_force")
