"""What the confirmation of a start or restart says of the checkpoint, looked at anew while the person reads.

`ui.dialogs` calls `draw` in a part of the dialog that runs every second; the answer says whether a broken
checkpoint stands in the way. The dialog can be used while the look is under way: the server looks again by itself.
"""

from __future__ import annotations

import time

import streamlit as st

from ui import checkpoint_choices, checkpoint_findings, checkpoint_looking, data, widgets
from ui.checkpoint_choices import Foretold
from ui.frames import Json
from ui.markup import plain, visible

FORCE = "In spite of it: start although the checkpoint is broken"


def opened(query_id: str) -> None:
    """Ask for a look: once for each dialog, when it opens."""
    before = (data.checkpoint(query_id).body or {}).get("checkpoint") or {}
    checkpoint_looking.ask(query_id, before.get("collected_at"))


def draw(query: Json) -> Foretold | None:
    """The verdict; None where the query has no checkpoint to speak of, or the server knows of none."""
    identity, now = str(query.get("query_id")), time.time()
    if (query.get("facts") or {}).get("checkpoint_is_temporary"):
        return None
    reading = data.checkpoint(identity, quick=checkpoint_looking.awaited(identity, now))
    look = checkpoint_looking.noted(identity, (reading.body or {}).get("checkpoint") or {})
    if reading.body is None and reading.kind == "missing" and (look is None or look.refused):
        return None
    checkpoint = (reading.body or {}).get("checkpoint") or {}
    patience = checkpoint_looking.DIALOG_PATIENCE
    waiting = checkpoint_looking.waiting(look, checkpoint, now, patience)
    trouble = checkpoint_looking.trouble(look, checkpoint, now, patience)
    foretold = checkpoint_choices.foretell(reading.body, waiting, trouble)
    with st.container(border=True, gap="xsmall", key="foretold"):
        _head(foretold, checkpoint, now)
        st.text(visible(foretold.sentence))
        checkpoint_findings.in_short(foretold.findings)
        if trouble and foretold.known:  # else it is the sentence
            st.caption(f":orange[:material/warning:] {plain(trouble)}")
    return foretold


def _head(foretold: Foretold, checkpoint: Json, now: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Checkpoint**", width="content")
        widgets.badge(foretold.look)
        said = checkpoint_choices.seen(checkpoint, now)
        if foretold.waiting:
            said = f":material/hourglass_top: looking again … {plain(said)}"
        st.caption(said if foretold.waiting else plain(said), width="content")


def insisted() -> bool:
    """The tick by which a broken checkpoint is overridden."""
    return st.checkbox(FORCE, key="ask_force")
