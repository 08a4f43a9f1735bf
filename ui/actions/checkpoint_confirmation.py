"""The checkpoint in the confirmation of a start or restart, checked again while the person reads.

`ui.actions.dialogs` calls `draw` in a part of the dialog that runs every second; its result shows whether a
broken checkpoint blocks the start. The dialog can be used during the check: the server checks again by
itself.
"""

from __future__ import annotations

import time

import streamlit as st

from ui.checkpoints import assessment, findings, inventory_request
from ui.checkpoints.assessment import StartForecast
from ui.kit import cached_reads, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

FORCE_LABEL = "Continue anyway: start although the checkpoint is broken"


def request_check(query_id: str) -> None:
    """Request a checkpoint check, once per dialog, when it opens."""
    before = (cached_reads.checkpoint(query_id).body or {}).get("checkpoint") or {}
    inventory_request.send(query_id, before.get("collected_at"))


def draw(query: Json) -> StartForecast | None:
    """Draw and return the forecast; None if the checkpoint is temporary or the server has none."""
    identity, now = str(query.get("query_id")), time.time()
    if (query.get("facts") or {}).get("checkpoint_is_temporary"):
        return None
    reading = cached_reads.checkpoint(identity, quick=inventory_request.is_awaited(identity, now))
    request = inventory_request.refresh(identity, (reading.body or {}).get("checkpoint") or {})
    if reading.body is None and reading.kind == "missing" and (request is None or request.refused):
        return None
    checkpoint = (reading.body or {}).get("checkpoint") or {}
    wait = inventory_request.DIALOG_WAIT_SECONDS
    waiting = inventory_request.is_waiting(request, checkpoint, now, wait)
    failure = inventory_request.failure(request, checkpoint, now, wait)
    forecast = assessment.forecast_start(reading.body, waiting, failure)
    with st.container(border=True, gap="xsmall", key="start_forecast"):
        _head(forecast, checkpoint, now)
        st.text(visible(forecast.sentence))
        findings.draw_brief(forecast.findings)
        if failure and forecast.known:  # otherwise it is the sentence
            st.caption(f":orange[:material/warning:] {plain(failure)}")
    return forecast


def _head(forecast: StartForecast, checkpoint: Json, now: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Checkpoint**", width="content")
        widgets.badge(forecast.style)
        checked = plain(assessment.last_check(checkpoint, now))
        if forecast.waiting:
            checked = f":material/hourglass_top: checking again … {checked}"
        st.caption(checked, width="content")


def force_checkbox() -> bool:
    """The checkbox that overrides a broken checkpoint."""
    return st.checkbox(FORCE_LABEL, key="ask_force")
