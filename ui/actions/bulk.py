"""An action on many queries: its plan, the confirmation, and its progress.

The Fleet page calls it with the queries that its filters show. The server carries the action on by itself; the page
only shows it. Open dialog and followed action are kept in the session.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ui.actions.dialogs import DRAIN, DRAIN_HELP, ICONS, MAX_REASON_CHARS
from ui.kit import action_checks, cached_reads, statuses, widgets
from ui.kit.answers import ClientError
from ui.kit.markup import one_line, plain

Json = Mapping[str, Any]

MAX_QUERIES = 500
POLL_SECONDS = 1.0
OPEN_STATES = frozenset({"waiting", "requested", "delivered", "running"})
_OPEN, _FOLLOWED, _CANCEL_ERROR = "open_bulk_action", "followed_bulk_action", "bulk_cancel_error"


def button(count: int, query_ids: Callable[[], list[str]], refusal: str | None) -> None:
    """A button that opens the dialog for these queries; disabled, with the reason as its tooltip, if refused."""
    clicked = st.button(
        f"Act on these {count} queries" if count > 1 else "Act on this query",
        key="ask_bulk",
        icon=":material/checklist:",
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
    )
    if clicked:
        st.session_state[_OPEN] = {"query_ids": query_ids(), "key": uuid.uuid4().hex}
        st.rerun()  # the dialog is outside of the part of the page that refreshes


def refusal_of(total: int, servers: Sequence[str], role: str | None) -> str | None:
    """Why no action can be requested for this many queries; None if it can."""
    if total > MAX_QUERIES:
        return f"At most {MAX_QUERIES} queries at a time. Filter the list."
    if servers:
        return "The dashboard shows several servers. Use `controlplane restart --selector … --server URL`."
    return action_checks.role_refusal(role)


def _close() -> None:
    st.session_state.pop(_OPEN, None)


def draw() -> None:
    """Draw the dialog if one is open."""
    request = st.session_state.get(_OPEN)
    if request:
        st.dialog("Act on several queries", width="large", on_dismiss=_close)(_body)(request)


def _body(request: dict[str, Any]) -> None:
    action = st.segmented_control(
        "Action",
        action_checks.ACTIONS,
        key="bulk_choice",
        default="restart",
        format_func=str.capitalize,
        required=True,
    )
    plan = _planned(request, str(action))
    if plan is None:
        return
    refused = len(plan["queries"]) - plan["accepted"]
    st.text(f"{plan['accepted']} of {len(plan['queries'])} queries can take this action now.")
    st.dataframe(
        plan_rows(plan["queries"]),
        hide_index=True,
        height=widgets.table_height(min(8, len(plan["queries"]))),
        placeholder="–",
        alt="The queries of the plan",
    )
    left_out = bool(refused) and st.checkbox("Leave out the queries that would be refused", key="bulk_skip")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parallel = st.number_input("Queries at once", 1, 50, 1, key="bulk_parallel", width=120)
        halt = st.toggle("Halt at the first failure", value=True, key="bulk_halt")
        drain = action != "start" and st.toggle(DRAIN, key="bulk_drain", help=DRAIN_HELP)
    reason = st.text_input(
        "Reason",
        key="bulk_reason",
        max_chars=MAX_REASON_CHARS,
        placeholder="Recorded with each action",
        live="300ms",
    )
    body = {
        "action": action,
        "query_ids": request["query_ids"],
        "reason": reason,
        "drain": bool(drain),
        "max_parallel": int(parallel),
        "halt_on_failure": bool(halt),
        "skip_refused": left_out,
    }
    _buttons(request, body, send_refusal(plan["accepted"], refused, left_out, reason or ""))


def send_refusal(accepted: int, refused: int, left_out: bool, reason: str) -> str | None:
    """Why the request cannot be sent yet; None if it can."""
    if not accepted:
        return "No query can take this action now."
    if refused and not left_out:
        return "Some queries would refuse the action. Leave them out, or filter the list."
    return None if reason.strip() else "Give a reason."


def _name(query: Json) -> str:
    return one_line(f"{query.get('app')} / {query.get('name') or str(query['query_id'])[:8]}")


def plan_rows(queries: Sequence[Json]) -> pd.DataFrame:
    """The plan as a table, the refused first."""
    rows = [
        {
            "Query": _name(query),
            "Status": statuses.status(query.get("status")).label,
            "Refused": one_line(query.get("refusal") or ""),
        }
        for query in sorted(queries, key=lambda query: not query.get("refusal"))
    ]
    return pd.DataFrame(rows, columns=["Query", "Status", "Refused"])


def _planned(request: dict[str, Any], action: str) -> Json | None:
    """The plan of this action, read once for each choice."""
    plans = request.setdefault("plans", {})
    if action not in plans:
        try:
            body = {"action": action, "query_ids": request["query_ids"]}
            plans[action] = cached_reads.post_bulk_action("/plan", body, request["key"])
        except ClientError as error:
            st.error(plain(error), title="No plan", icon=":material/block:")
            return None
    found: Json = plans[action]
    return found


def _buttons(request: dict[str, Any], body: dict[str, Any], refusal: str | None) -> None:
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="bulk_no"):
            _close()
            st.rerun()
        action = str(body["action"])
        if st.button(
            action.capitalize(),
            key="bulk_yes",
            type="primary",
            icon=ICONS[action],
            disabled=refusal is not None,
            help=refusal,
        ):
            _send(request, body)
    if request.get("error"):
        st.error(request["error"], title="Request refused", icon=":material/block:")


def _send(request: dict[str, Any], body: dict[str, Any]) -> None:
    try:
        bulk = cached_reads.post_bulk_action("", body, request["key"])["bulk_action"]
    except ClientError as error:
        request.update(key=uuid.uuid4().hex, error=plain(error), plans={})
        st.rerun()
    st.session_state[_FOLLOWED] = bulk["id"]
    _close()
    st.rerun()


def draw_followed() -> None:
    """The progress of the action that this viewer requested, until it is dismissed."""
    bulk_id = st.session_state.get(_FOLLOWED)
    st.fragment(run_every=POLL_SECONDS if bulk_id else None)(_followed)(bulk_id)


def _followed(bulk_id: str | None) -> None:
    reading = cached_reads.bulk_action(bulk_id) if bulk_id else None
    if reading is None or reading.body is None:
        return
    bulk = reading.body["bulk_action"]
    over = bool(bulk["ended_at"]) and not OPEN_STATES & set(bulk["counts"])
    with st.container(border=True, gap="xsmall", key="bulk_progress"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(sentence(bulk), width="stretch")
            if over and st.button("Dismiss", key="bulk_dismiss"):
                st.session_state.pop(_FOLLOWED, None)
                st.rerun()
            if not bulk["ended_at"] and st.button("Act on no further query", key="bulk_cancel"):
                _cancel(str(bulk_id))
        if error := st.session_state.get(_CANCEL_ERROR):
            st.error(error, title="Not cancelled", icon=":material/block:")
        with st.expander("Queries", key="bulk_queries"):
            st.dataframe(
                progress_rows(bulk["queries"]), hide_index=True, placeholder="–", alt="State of each query"
            )


def _cancel(bulk_id: str) -> None:
    st.session_state.pop(_CANCEL_ERROR, None)
    try:
        cached_reads.post_bulk_action(f"/{bulk_id}/cancel", {}, uuid.uuid4().hex)
    except ClientError as error:
        st.session_state[_CANCEL_ERROR] = plain(error)
    st.rerun()


def sentence(bulk: Json) -> str:
    """`Restart of 3 queries by ada: 1 succeeded, 2 waiting.`, then why it ended."""
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in bulk["counts"].items())
    text = (
        f"{str(bulk['action']).capitalize()} of {len(bulk['queries'])} queries by {bulk['actor']}: {counts}."
    )
    return one_line(f"{text} {str(bulk['state']).capitalize()}: {bulk['reason']}" if bulk["reason"] else text)


def progress_rows(queries: Sequence[Json]) -> pd.DataFrame:
    """Each query's state as a table."""
    rows = [
        {
            "Query": _name(query),
            "State": str(query["state"]).replace("_", " "),
            "Reason": one_line(query.get("reason") or ""),
        }
        for query in queries
    ]
    return pd.DataFrame(rows, columns=["Query", "State", "Reason"])
