"""Confirmation of a start, stop or restart of an application: its consequences, the reason, and the decision.

The open dialog is kept in the session, so that a refresh of the page opens it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.actions.dialogs import ICONS, MAX_REASON_CHARS
from ui.kit import cached_reads
from ui.kit.answers import ClientError, ServerRefused
from ui.kit.markup import plain

Json = Mapping[str, Any]

TITLES = {
    "start": "Start this application?",
    "stop": "Stop this application?",
    "restart": "Restart this application?",
}
CONSEQUENCES = {
    "start": "Its launcher starts a driver. The queries resume from their checkpoints.",
    "stop": "Every query of the driver ends. The running batches run again after the next start.",
    "restart": "Every query of the driver ends and resumes from its checkpoint in a new driver.",
}
DRAIN = "Let the running batches finish first (drain)"
FORCE = "Start although another driver may still run. Two drivers on one checkpoint damage it."
_KEY = "open_app_action"


def button(action: str, app: Json, refusal: str | None) -> None:
    """A button that opens the dialog; disabled, with the reason as its tooltip, if the action is refused."""
    clicked = st.button(
        action.capitalize(),
        key=f"app_{action}",
        icon=ICONS[action],
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
    )
    if clicked:
        st.session_state[_KEY] = {"action": action, "app": str(app.get("name")), "key": uuid.uuid4().hex}
        st.rerun()  # the dialog is outside of the part of the page that refreshes


def refusal_of(action: str, app: Json, role: str | None) -> str | None:
    """Why an action makes no sense now; None if it may be requested."""
    if role not in (None, "operator", "admin"):
        return f"The role {role} cannot do this."
    if (app.get("action") or {}).get("state") == "running":
        return "Another action is in progress."
    if action == "start" and app.get("state") in ("running", "starting"):
        return "It is running."
    if action == "stop" and app.get("state") in ("ended", "none"):
        return "It is not running."
    return None


def _close() -> None:
    st.session_state.pop(_KEY, None)


def draw(apps: Sequence[Json], role: str | None) -> None:
    """Draw the dialog if one is open."""
    request = st.session_state.get(_KEY) or {}
    app = next((app for app in apps if app.get("name") == request.get("app")), None)
    if app is not None:
        action = request["action"]
        st.dialog(TITLES[action], icon=ICONS[action], on_dismiss=_close)(_body)(app, request, role)


def _body(app: Json, request: dict[str, str], role: str | None) -> None:
    action = request["action"]
    st.text(str(app.get("name")))
    st.caption(CONSEQUENCES[action])
    body: dict[str, Any] = {"action": action}
    if action != "start":
        body["drain"] = st.toggle(DRAIN, key="app_drain")
    if request.get("refused") == "driver_may_live" and role == "admin":
        body["force"] = st.checkbox(FORCE, key="app_force")
    body["reason"] = st.text_input(
        "Reason", key="app_reason", max_chars=MAX_REASON_CHARS, placeholder="Recorded with the action"
    )
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="app_no"):
            _close()
            st.rerun()
        if st.button(action.capitalize(), key="app_yes", type="primary", icon=ICONS[action]):
            _send(request, body)
    if request.get("error"):
        st.error(request["error"], title="Request refused", icon=":material/block:")


def _send(request: dict[str, str], body: dict[str, Any]) -> None:
    try:
        action = cached_reads.act_on_app(request["app"], body, request["key"])
    except ServerRefused as error:  # the refusal is recorded under the old key
        request.update(key=uuid.uuid4().hex, refused=error.code, error=plain(error))
        st.rerun()
    except ClientError as error:
        request["error"] = plain(error)
        st.rerun()
    if action["state"] == "failed":
        request.update(key=uuid.uuid4().hex, error=plain(action["reason"]))
    else:
        _close()
    st.rerun()
