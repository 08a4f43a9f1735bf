"""Impersonation: a request on behalf of a signed-in person, named in the headers of the dashboard's request.

`controlplane.api.access` calls it for each request. The headers are those of the dashboard's `ui.kit.client`:
`Impersonate-User` (percent-encoded UTF-8) and `Impersonate-Role`. Only a token that may impersonate may send them,
and the request has at most the token's own role. The audit log keeps both: the person, and the token's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from controlplane.errors import BadRequest, Forbidden
from controlplane.model import Role
from controlplane.runtime.tokens import Token

USER = "impersonate-user"
ROLE = "impersonate-role"
#: The roles of people, each with what the ones before it may do.
RANKS = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
MAX_NAME_CHARS = 200


def impersonated(token: Token, headers: Mapping[str, str]) -> Token:
    """The token as the person of these headers may use it: with the person's name and the lower of both roles.

    The token itself where no header names a person. Forbidden if the token may not impersonate.
    """
    if USER not in headers and ROLE not in headers:
        return token
    if not token.may_impersonate:
        raise Forbidden(
            f"the token {token.name} may not act for other people; create one with --may-impersonate",
            code="may_not_impersonate",
        )
    return replace(token, person=_name(headers.get(USER, "")), role=_lower(token.role, headers.get(ROLE)))


def _name(text: str) -> str:
    name = unquote(text, errors="replace").strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise BadRequest(f"Impersonate-User must be a name of 1 to {MAX_NAME_CHARS} printable characters")
    return name


def _lower(own: Role, stated: str | None) -> Role:
    if stated is None:
        return own
    if stated not in RANKS:
        raise BadRequest(f"Impersonate-Role must be one of {', '.join(RANKS)}")
    return min(own, Role(stated), key=RANKS.index)
