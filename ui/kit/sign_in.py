"""The person who uses this page: by OpenID Connect, by a trusted proxy's headers, or nobody where there is no log-in.

`ui.launch` sets the variables that choose the mode; `ui.proxy_check` has checked a proxy's headers before they
arrive here. `ui.kit.cached_reads` asks for each read and each request; `ui.sign_in_page` draws it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import streamlit as st

from ui.kit import role_map
from ui.kit.answers import TokenRefused
from ui.kit.role_map import RoleMap, lower

AUTH_FILE = "CONTROLPLANE_AUTH_FILE"
PROXIES = "CONTROLPLANE_TRUSTED_PROXIES"
USER_HEADER = "CONTROLPLANE_PROXY_USER_HEADER"
GROUPS_HEADER = "CONTROLPLANE_PROXY_GROUPS_HEADER"
ROLE_MAP = "CONTROLPLANE_ROLE_MAP"
#: After this time a person logs in again, so that a role that was taken away is lost. Streamlit's cookie lasts 30 days.
SESSION_SECONDS = 12 * 3600.0
ENDED = "You are not logged in, or your log-in has ended. Reload the page and log in."


@dataclass(frozen=True)
class Person:
    """`role`: none, viewer, operator or admin."""

    name: str
    role: str


def mode(environ: Mapping[str, str] = os.environ) -> str:
    """How people log in: `oidc`, `proxy`, or empty: not at all."""
    if environ.get(AUTH_FILE):
        return "oidc"
    return "proxy" if environ.get(PROXIES) else ""


def person() -> Person | None:
    """Who uses this page; None if nobody is logged in. Only for a mode with a log-in."""
    claims = _proxy_claims() if mode() == "proxy" else _token_claims(time.time())
    return None if claims is None else person_of(claims, _role_map(os.environ.get(ROLE_MAP) or None))


def person_of(claims: Mapping[str, Any], roles: RoleMap) -> Person | None:
    """The person with these claims; None without a name."""
    name = roles.name_of(claims)
    return Person(name, roles.role_of(claims)) if name else None


@lru_cache(maxsize=1)
def _role_map(path: str | None) -> RoleMap:
    return role_map.load(path)


def _token_claims(now: float) -> Mapping[str, Any] | None:
    claims = st.user.to_dict()
    return claims if claims.get("is_logged_in") is True and is_recent(claims, now) else None


def is_recent(claims: Mapping[str, Any], now: float) -> bool:
    """Whether the ID token was issued within SESSION_SECONDS. One without a time is not accepted."""
    issued = claims.get("iat")
    return isinstance(issued, int | float) and now - issued < SESSION_SECONDS


def _proxy_claims() -> Mapping[str, Any] | None:
    names = [os.environ.get(variable, "") for variable in (USER_HEADER, GROUPS_HEADER)]
    user, groups = (st.context.headers.get(name, "").strip() for name in names)
    listed = [group.strip() for group in groups.split(",")]
    return {"sub": user, "groups": listed} if user else None


def is_admitted() -> bool:
    """Whether this session may see the pages."""
    if not mode():
        return True
    found = person()
    return found is not None and found.role != "none"


def effective_role(token: Mapping[str, Any]) -> str | None:
    """The role in this session of the token that `token` (of `/api/v1/whoami`) describes; None if unknown."""
    own = str(token["role"]) if token.get("role") else None
    if not mode():
        return own
    found = person()
    capped = (
        "viewer" if token.get("may_impersonate") is False else None
    )  # the server refuses what changes something
    return lower(own, capped, found.role if found else "none")


def request_headers() -> dict[str, str]:
    """The headers that name the person to the server; none without a log-in. Raises TokenRefused for nobody."""
    if not mode():
        return {}
    found = person()
    if found is None or found.role == "none":
        raise TokenRefused(ENDED)
    return {"Impersonate-User": quote(found.name, safe="@ "), "Impersonate-Role": found.role}
