"""The confirmation of an action: what will happen, why it is asked for, yes or no.

The Query page calls it. Which dialog is open is kept in the session, so that a rerun of the page (a status
changed, the refresh ticked) opens the same one again and nobody's half-written reason is lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.actions import checkpoint_confirmation, tracking
from ui.checkpoints import assessment as checkpoint_choices
from ui.kit import action_checks, cached_reads, series_queries, widgets
from ui.kit.client import ClientError, ServerRefused
from ui.kit.markup import one_line, plain

Json = Mapping[str, Any]

TITLES = {"restart": "Restart this query?", "stop": "Stop this query?", "start": "Start this query?"}
ICONS = {
    "restart": ":material/restart_alt:",
    "stop": ":material/stop_circle:",
    "start": ":material/play_circle:",
}
MAX_REASON_CHARS = 500
CHECKPOINT_POLL_SECONDS = 1.0  # seconds
REASON = "ask_reason"
DRAIN = "Let the running batch finish first (drain)"
DRAIN_HELP = (
    "The stop waits for the gap between two batches, up to half of the time that the action has. A query without "
    "a trigger interval that always has data has hardly any gap: then the batch is cut, and the outcome says so."
)


def open_dialog(action: str, query_id: str) -> None:
    """Open the dialog (a button's callback). One key a dialog: 'yes' sent twice is still one action."""
    st.session_state["asking"] = {"action": action, "query_id": query_id, "key": uuid.uuid4().hex}
    st.session_state.pop("ask_force", None)
    if action != "stop":
        checkpoint_confirmation.request_check(query_id)


def button(action: str, query_id: str, refusal: str | None) -> None:
    """A button that opens the dialog; disabled, and saying why, where the action cannot be."""
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
    st.session_state.pop("asking", None)


def open_request(query_id: str) -> dict[str, str] | None:
    """The open question about this query, if there is one."""
    question = st.session_state.get("asking")
    return question if question and question["query_id"] == query_id else None


def actor() -> str | None:
    """The signed-in person, where there is a sign-in; else the server names the token."""
    user = dict(st.user)
    if user.get("is_logged_in") is False:
        return None
    return next((str(user[name]) for name in ("email", "preferred_username", "name") if user.get(name)), None)


def draw(query: Json, question: dict[str, str]) -> None:
    """Show the dialog that the question is about."""
    action = question["action"]
    st.dialog(TITLES[action], width="medium", icon=ICONS[action], on_dismiss=close)(_body)(query, question)


def _body(query: Json, question: dict[str, str]) -> None:
    action = question["action"]
    st.text(f"{query.get('app')} / {query.get('name') or query.get('query_id')}")
    runs = query.get("status") not in action_checks.ENDED_STATUSES
    drain = action != "start" and runs and st.toggle(DRAIN, key="ask_drain", help=DRAIN_HELP)
    widgets.definition_list(action_checks.consequences(action, query, drain, _moment(query)))
    # Not in the part below, which is drawn again each second: a field drawn anew loses what is being typed.
    st.text_input(
        "Reason", key=REASON, max_chars=MAX_REASON_CHARS, placeholder="For the record", live="300ms"
    )
    body = {"action": action, "drain": bool(drain), "overrides": {}}
    if action == "stop":
        _answer(question, body, blocked=False)
    else:
        st.fragment(run_every=CHECKPOINT_POLL_SECONDS)(_foretell)(query, question, body)


def _foretell(query: Json, question: dict[str, str], body: dict[str, Any]) -> None:
    """What the checkpoint will do to the start; drawn every second, since it is looked at meanwhile."""
    with st.container():
        foretold = checkpoint_confirmation.draw(query)
    blocked = foretold is not None and foretold.blocks
    if question.get("refused") == "checkpoint_broken":  # the server has seen it anew, and has the last word
        blocked = True
    _answer(question, body, blocked)


def _answer(question: dict[str, str], body: dict[str, Any], blocked: bool) -> None:
    """Yes or no; yes cannot be said over a broken checkpoint but by insisting, with a reason."""
    action, reason = question["action"], str(st.session_state.get(REASON) or "")
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
            _send(question, {**body, "reason": reason, **({"force": True} if forced else {})})
    if question.get("error"):
        st.error(question["error"], title="The server did not take it", icon=":material/block:")


def _moment(query: Json) -> action_checks.QueryActivity:
    """What the server says beside the query itself; what it does not say is not known."""
    query_id = str(query.get("query_id"))
    found = cached_reads.instant(series_queries.newest("batch_age_seconds", query)).body
    firing = action_checks.firing_alerts_of(cached_reads.alerts().body, query_id)
    names = dict.fromkeys(one_line(alert.get("name") or "") for alert in firing)
    return action_checks.QueryActivity(tuple(names), series_queries.single_value(found))


def _send(question: dict[str, str], body: dict[str, Any]) -> None:
    if who := actor():
        body["actor"] = who
    try:
        action = cached_reads.act(question["query_id"], body, question["key"])
    except ServerRefused as error:
        # The refusal is on record under the old key: asked anew, it is another.
        question.update(key=uuid.uuid4().hex, refused=error.code, error=plain(error))
        return
    except ClientError as error:
        question["error"] = plain(error)
        return
    tracking.track(question["query_id"], action["id"])
    close()
    st.rerun()
