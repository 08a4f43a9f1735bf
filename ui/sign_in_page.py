"""Who uses the dashboard: the log-in page, the refusal of a person without a role, and the line on every page.

`ui.app` calls `admit` before any page, and `draw_line` above each. `ui.kit.sign_in` knows the person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.kit import cached_reads, sign_in
from ui.kit.markup import plain, visible
from ui.kit.sign_in import Person

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
NO_IMPERSONATION = (
    "This dashboard's token may not act for people, so nobody can stop, restart or silence anything here. "
    "Give it one of `controlplane token create --role operator --may-impersonate`."
)


def draw_log_in() -> None:
    """The page of somebody who may not see the others: how to log in, or why it does not suffice."""
    found = sign_in.person()
    st.title("Spark control plane", anchor=False)
    if found is not None:
        st.text(f"You are logged in as {visible(found.name)}, but no role is assigned to you.")
        st.caption("Roles are assigned in the dashboard's role map (`--role-map`).")
        _log_out_button()
    elif sign_in.mode() == "proxy":
        st.text("The proxy in front of this dashboard has not named you.")
        st.caption("It must send the header that `--proxy-user-header` names.")
    else:
        st.text("Log in to see the fleet.")
        st.button("Log in", key="log_in", type="primary", icon=":material/login:", on_click=st.login)


def _log_out_button() -> None:
    if sign_in.mode() == "oidc":
        st.button("Log out", key="log_out", type="tertiary", icon=":material/logout:", on_click=st.logout)


def draw_line() -> None:
    """Who acts on this page, and with which role."""
    token = cached_reads.whoami().body or {}
    role = sign_in.effective_role(token)
    found = sign_in.person() if sign_in.mode() else None
    with st.container(key="who", horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        if found is not None:
            st.caption(f":material/person: {plain(found.name)} ({role or found.role})", width="content")
            _log_out_button()
        elif token:
            st.caption(f":material/key: {plain(token_sentence(token))}", width="content")
    if problem := warning(token, found, st.get_option("server.address") or "127.0.0.1"):
        st.warning(problem, icon=":material/warning:")


def token_sentence(token: Mapping[str, Any]) -> str:
    """Whose token the page uses where nobody logs in."""
    return f"No log-in: everybody here acts as {token.get('name')} ({token.get('role')})"


def warning(token: Mapping[str, Any], found: Person | None, address: str) -> str:
    """What is wrong with the log-in, or with its absence; empty if nothing is."""
    changes = token.get("role") not in (None, "viewer")
    if found is not None:
        wants = found.role not in ("none", "viewer")
        return NO_IMPERSONATION if token.get("may_impersonate") is False and wants else ""
    if changes and not sign_in.mode() and address not in LOOPBACK_NAMES:
        return (
            "Everybody who reaches this address can stop, restart and silence queries. Set up a log-in "
            "(`--auth`), or give the dashboard a viewer's token."
        )
    return ""
