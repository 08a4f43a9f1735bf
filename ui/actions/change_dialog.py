"""Confirmation of a change of a checkpoint: a rewind, a repair or an undo that the server carries out.

The Query page calls `draw`; the panels below the checkpoint open it. The open dialog is kept in the session, as that of
`ui.actions.dialogs`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.actions import tracking
from ui.actions.dialogs import MAX_REASON_CHARS
from ui.kit import cached_reads, widgets
from ui.kit.answers import ClientError
from ui.kit.markup import plain

TITLES = {
    "rewind": "Rewind this checkpoint?",
    "repair": "Repair this checkpoint?",
    "undo": "Undo the change of this checkpoint?",
}
ICONS = {"rewind": ":material/history:", "repair": ":material/build:", "undo": ":material/undo:"}
HOW = (
    "The server makes sure that no process writes to the checkpoint, which takes 10 to 60 s, copies every file that "
    "changes to a backup beside it, changes the files and checks the outcome. No command starts the query meanwhile."
)
OPEN, REASON = "open_change", "change_reason"
#: What the panels have read of the checkpoint, which is outdated once a change was requested.
REWINDS, REPAIRS = "rewind_preview", "repair_preview"


def open_dialog(kind: str, query_id: str, body: Mapping[str, Any], facts: Sequence[tuple[str, str]]) -> None:
    """Open the dialog (a button's callback). `facts`: what the change does. One key per dialog: two clicks are one change."""
    request = {"kind": kind, "query_id": query_id, "body": dict(body), "facts": list(facts)}
    st.session_state[OPEN] = {**request, "key": uuid.uuid4().hex}


def button(
    kind: str,
    key: str,
    refusal: str | None,
    query_id: str,
    body: Mapping[str, Any],
    facts: Sequence[tuple[str, str]],
) -> None:
    """A button that opens the dialog; disabled, with the reason as its tooltip, where the server would refuse."""
    if st.button(
        f"{kind.capitalize()}…",
        key=key,
        icon=ICONS[kind],
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
        on_click=open_dialog,
        args=(kind, query_id, body, facts),
    ):
        st.rerun()  # the whole page draws the dialog


def open_request(query_id: str) -> dict[str, Any] | None:
    """The open dialog's request about this query, if there is one."""
    request = st.session_state.get(OPEN)
    return request if request and request["query_id"] == query_id else None


def close() -> None:
    """Close the dialog."""
    st.session_state.pop(OPEN, None)


def draw(request: dict[str, Any]) -> None:
    """Draw the dialog of this request."""
    kind = request["kind"]
    st.dialog(TITLES[kind], width="medium", icon=ICONS[kind], on_dismiss=close)(_body)(request)


def _body(request: dict[str, Any]) -> None:
    widgets.definition_list(request["facts"])
    st.caption(HOW)
    st.text_input("Reason", key=REASON, max_chars=MAX_REASON_CHARS, placeholder="Shown in the action log")
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="change_no"):
            close()
            st.rerun()
        kind = request["kind"]
        if st.button(kind.capitalize(), key="change_yes", type="primary", icon=ICONS[kind]):
            _send(request)
    if request.get("error"):
        st.error(request["error"], title="Request refused", icon=":material/block:")


def _send(request: dict[str, Any]) -> None:
    body = {**request["body"], "reason": str(st.session_state.get(REASON) or "")}
    try:
        answer = cached_reads.connection().change_checkpoint(
            request["query_id"], request["kind"], body, request["key"]
        )
    except ClientError as error:
        request.update(key=uuid.uuid4().hex, error=plain(error))
        return
    cached_reads.clear()
    for kept in (REWINDS, REPAIRS):
        st.session_state.pop(kept, None)
    tracking.track(request["query_id"], answer["action"]["id"])
    close()
    st.rerun()
