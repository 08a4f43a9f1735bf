"""A trial notification to a receiver, on the Server page. `ui/app_pages/server.py` calls `draw`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.kit import action_checks, cached_reads, units, widgets
from ui.kit.answers import ClientError
from ui.kit.frames import Json
from ui.kit.markup import plain

_LAST = "last_trial"


def draw(receivers: Sequence[Json]) -> None:
    """Choose a receiver, send it a trial, and show what each integration answered."""
    names = [str(item.get("name")) for item in receivers if item.get("integrations")]
    if not names:
        return
    refusal = action_checks.role_refusal(cached_reads.role(), "Trial notifications")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.selectbox("Receiver", names, key="trial_receiver", width=260)
        st.button(
            "Send test",
            key="trial_send",
            icon=":material/send:",
            disabled=refusal is not None,
            help=refusal,
            on_click=_send,
            args=(chosen,),
        )
    with st.container(key="trial_outcome"):  # always there, so that what follows keeps its place
        for line in st.session_state.get(_LAST) or []:
            st.caption(line)


def _send(receiver: str) -> None:
    """Send the trial (the button's callback); it waits for every integration."""
    at = units.clock(time.time(), widgets.zone(), time.time())
    try:
        answer = cached_reads.connection().try_receiver(receiver)
    except ClientError as error:
        st.session_state[_LAST] = [f":orange[:material/warning:] {plain(f'{at}: not sent. {error}')}"]
        return
    cached_reads.clear()
    st.session_state[_LAST] = [outcome(item, receiver, at) for item in answer.get("integrations") or []]


def outcome(item: dict[str, Any], receiver: str, at: str) -> str:
    """What one integration answered, as Markdown."""
    name = f"{receiver}, {item.get('name')}"
    if item.get("delivered"):
        return f":green[:material/check:] {plain(f'{at}: {name} took the test.')}"
    error = item.get("error") or "no reason"
    return f":red[:material/error:] {plain(f'{at}: {name} failed: {error}')}"
