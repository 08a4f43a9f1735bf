"""Confirmation of an action: its consequences, the reason for it, and the decision.

The Query page calls it. The open dialog is kept in the session, so that a rerun of the page (a changed
status, a refresh) opens the same dialog again and a half-written reason is not lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.actions import checkpoint_confirmation, tracking
from ui.checkpoints import assessment as checkpoint_choices
from ui.kit import action_checks, cached_reads, series_queries, statuses, widgets
from ui.kit.answers import ClientError, ServerRefused
from ui.kit.markup import one_line, plain

Json = Mapping[str, Any]

TITLES = {
    "restart": "Restart this query?",
    "stop": "Stop this query?",
    "start": "Start this query?",
    "suspend": "Suspend this query?",
    "resume": "Resume this query?",
}
#: The action that a dialog requests of the driver.
DRIVER_ACTIONS = {**{action: action for action in action_checks.ACTIONS}, **action_checks.ACTION_OF}
ICONS = {
    "restart": ":material/restart_alt:",
    "stop": ":material/stop_circle:",
    "start": ":material/play_circle:",
    "suspend": ":material/pause_circle:",
    "resume": ":material/resume:",
}
MAX_REASON_CHARS = 500
CHECKPOINT_POLL_SECONDS = 1.0
CONSEQUENCES_SECONDS = 2.0
REASON = "ask_reason"
DRAIN = "Let the running batch finish first (drain)"
DRAIN_HELP = (
    "The stop waits for the end of the running batch, for at most half of the action's time limit. A query that "
    "never pauses is stopped right after its next commit. If the limit passes first, the running batch is cancelled "
    "and runs again; the outcome states it."
)


def open_dialog(action: str, query_id: str) -> None:
    """Open the dialog (a button's callback). One key per dialog: two clicks are still one action."""
    st.session_state["open_action"] = {"action": action, "query_id": query_id, "key": uuid.uuid4().hex}
    st.session_state.pop("ask_force", None)
    if DRIVER_ACTIONS[action] != "stop":
        checkpoint_confirmation.request_check(query_id)


def button(action: str, query_id: str, refusal: str | None) -> None:
    """A button that opens the dialog; disabled, with the reason as its tooltip, if the action is refused."""
    st.button(
        action.capitalize(),
        key=f"ask_{action}",
        icon=ICONS[action],
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
        on_click=open_dialog,
        args=(action, query_id),
    )


def close() -> None:
    """Close the dialog."""
    st.session_state.pop("open_action", None)


def open_request(query_id: str) -> dict[str, str] | None:
    """The open dialog's request about this query, if there is one."""
    request = st.session_state.get("open_action")
    return request if request and request["query_id"] == query_id else None


def draw(query: Json, request: dict[str, str]) -> None:
    """Draw the dialog of this request."""
    action = request["action"]
    st.dialog(TITLES[action], width="medium", icon=ICONS[action], on_dismiss=close)(_body)(query, request)


def _body(query: Json, request: dict[str, str]) -> None:
    asked = request["action"]
    alone = asked in action_checks.ACTION_OF and action_checks.no_action(asked, query) is not None
    action = None if alone else DRIVER_ACTIONS[asked]
    st.text(f"{query.get('app')} / {query.get('name') or query.get('query_id')}")
    runs = query.get("status") not in statuses.ENDED_STATUSES
    if action == "stop" and (no_start := action_checks.no_start_after_stop(query)):
        st.warning(plain(no_start), icon=":material/warning:")
    can_drain = action in ("stop", "restart") and runs
    drain = can_drain and st.toggle(DRAIN, key="ask_drain", help=DRAIN_HELP)
    st.fragment(run_every=CONSEQUENCES_SECONDS)(_consequences)(asked, query, bool(drain))
    # Outside of the parts that are redrawn: there, a field loses what is being typed.
    st.text_input(
        "Reason", key=REASON, max_chars=MAX_REASON_CHARS, placeholder="Shown in the action log", live="300ms"
    )
    body = _request_body(asked, action, bool(drain))
    if action in ("stop", None):
        _buttons(request, body, blocked=False)
    else:
        st.fragment(run_every=CHECKPOINT_POLL_SECONDS)(_checkpoint_and_buttons)(query, request, body)


def _consequences(asked: str, opened: Json, drain: bool) -> None:
    """What the action will do, as of now: the query commits batches while the dialog is open."""
    query = cached_reads.query(str(opened.get("query_id"))).body or opened
    widgets.definition_list(action_checks.consequences(asked, query, drain, _activity(query)))


def _request_body(asked: str, action: str | None, drain: bool) -> dict[str, Any]:
    """Body of the desired state for a suspension, or where nothing else is done; else of the action.

    A start sets the desired state, too, and it alone can be forced over a broken checkpoint.
    """
    if asked == "suspend" or action is None:
        state = "suspended" if asked == "suspend" else "running"
        return {"state": state, "drain": drain, "act": action is not None}
    return {"action": action, "drain": drain, "overrides": {}}


def _checkpoint_and_buttons(query: Json, request: dict[str, str], body: dict[str, Any]) -> None:
    """The start's forecast; redrawn every second, because the checkpoint is checked meanwhile."""
    with st.container():
        forecast = checkpoint_confirmation.draw(query)
    blocked = forecast is not None and forecast.blocks
    if request.get("refused") == "checkpoint_broken":  # the server has checked again and decides
        blocked = True
    _buttons(request, body, blocked)


def _buttons(request: dict[str, str], body: dict[str, Any], blocked: bool) -> None:
    """Cancel and confirm; over a broken checkpoint only with the checkbox and a reason."""
    action, reason = request["action"], str(st.session_state.get(REASON) or "")
    with st.container():
        forced = blocked and checkpoint_confirmation.force_checkbox()
    refusal = checkpoint_choices.force_refusal(forced, reason) if blocked else None
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="ask_no"):
            close()
            st.rerun()
        if st.button(
            action.capitalize(),
            key="ask_yes",
            type="primary",
            icon=ICONS[action],
            disabled=bool(refusal),
            help=plain(refusal) if refusal else None,
        ):
            _send(request, {**body, "reason": reason, **({"force": True} if forced else {})})
    if request.get("error"):
        st.error(request["error"], title="Request refused", icon=":material/block:")


def _activity(query: Json) -> action_checks.QueryActivity:
    """Running batch and firing alerts of the query, as far as the server knows them."""
    query_id = str(query.get("query_id"))
    found = cached_reads.instant(series_queries.newest("batch_age_seconds", query)).body
    firing = action_checks.firing_alerts_of(cached_reads.alerts().body, query_id)
    names = dict.fromkeys(one_line(alert.get("name") or "") for alert in firing)
    return action_checks.QueryActivity(tuple(names), series_queries.single_value(found))


def _send(request: dict[str, str], body: dict[str, Any]) -> None:
    try:
        action = _post(request, body)
    except ServerRefused as error:
        # The server has recorded the refusal under the old key: another attempt needs a new one.
        request.update(key=uuid.uuid4().hex, refused=error.code, error=plain(error))
        return
    except ClientError as error:
        request["error"] = plain(error)
        return
    if action is not None:
        tracking.track(request["query_id"], action["id"])
    close()
    st.rerun()


def _post(request: dict[str, str], body: dict[str, Any]) -> dict[str, Any] | None:
    if "state" in body:
        return cached_reads.set_desired(request["query_id"], body)
    return cached_reads.act(request["query_id"], body, request["key"])
