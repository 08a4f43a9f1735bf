"""What the confirmation of a start or restart says of the checkpoint, looked at anew while the person reads.

`ui.actions.dialogs` calls `draw` in a part of the dialog that runs every second; the answer says whether a broken
checkpoint stands in the way. The dialog can be used while the look is under way: the server looks again by itself.
"""

from __future__ import annotations

import time

import streamlit as st

from ui.checkpoints import assessment, findings, inventory_request
from ui.checkpoints.assessment import Foretold
from ui.kit import cached_reads, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

FORCE = "In spite of it: start although the checkpoint is broken"


def opened(query_id: str) -> None:
    """Ask for a look: once for each dialog, when it opens."""
    before = (cached_reads.checkpoint(query_id).body or {}).get("checkpoint") or {}
    inventory_request.ask(query_id, before.get("collected_at"))


def draw(query: Json) -> Foretold | None:
    """The verdict; None where the query has no checkpoint to speak of, or the server knows of none."""
    identity, now = str(query.get("query_id")), time.time()
    if (query.get("facts") or {}).get("checkpoint_is_temporary"):
        return None
    reading = cached_reads.checkpoint(identity, quick=inventory_request.awaited(identity, now))
    look = inventory_request.noted(identity, (reading.body or {}).get("checkpoint") or {})
    if reading.body is None and reading.kind == "missing" and (look is None or look.refused):
        return None
    checkpoint = (reading.body or {}).get("checkpoint") or {}
    patience = inventory_request.DIALOG_PATIENCE
    waiting = inventory_request.waiting(look, checkpoint, now, patience)
    trouble = inventory_request.trouble(look, checkpoint, now, patience)
    foretold = assessment.foretell(reading.body, waiting, trouble)
    with st.container(border=True, gap="xsmall", key="foretold"):
        _head(foretold, checkpoint, now)
        st.text(visible(foretold.sentence))
        findings.in_short(foretold.findings)
        if trouble and foretold.known:  # else it is the sentence
            st.caption(f":orange[:material/warning:] {plain(trouble)}")
    return foretold


def _head(foretold: Foretold, checkpoint: Json, now: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Checkpoint**", width="content")
        widgets.badge(foretold.look)
        said = assessment.seen(checkpoint, now)
        if foretold.waiting:
            said = f":material/hourglass_top: looking again … {plain(said)}"
        st.caption(said if foretold.waiting else plain(said), width="content")


def insisted() -> bool:
    """The tick by which a broken checkpoint is overridden."""
    return st.checkbox(FORCE, key="ask_force")
