"""Role map: from the claims of a signed-in person to a role of the server.

Pure but for `load`. `ui.kit.sign_in` applies it; `ui.launch` loads it once before the start, to report mistakes.
A file in TOML:

    claim = "groups"            # of the ID token; dots lead inwards: "realm_access.roles"
    name = "email"              # the claim that names the person; by default a verified e-mail address
    default = "none"            # the role of everybody else: none (default), viewer, operator or admin
    [roles]
    "streaming-oncall" = "operator"
    "platform-admins" = "admin"

Without a file everybody who can log in is a viewer.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Each role may do what those before it may; "none" may not open the dashboard.
RANKS = ("none", "viewer", "operator", "admin")
NAME_CLAIMS = ("email", "preferred_username", "sub")
MAX_NAME_CHARS = 200


class RoleMapError(ValueError):
    """The file cannot be used; the message is one sentence with its name."""


@dataclass(frozen=True)
class RoleMap:
    """`roles`: role by a value of the claim; a person with several of them has the highest role."""

    claim: str = "groups"
    name: str = ""
    default: str = "viewer"
    roles: Mapping[str, str] = field(default_factory=dict)

    def role_of(self, claims: Mapping[str, Any]) -> str:
        """The role of a person with these claims."""
        found = [self.roles[value] for value in _texts(_inner(claims, self.claim)) if value in self.roles]
        return max(found, key=RANKS.index, default=self.default)

    def name_of(self, claims: Mapping[str, Any]) -> str:
        """The name under which the person acts; empty if the claims have none."""
        names = (self.name,) if self.name else NAME_CLAIMS
        found = (_texts(_inner(claims, name)) for name in names if _is_proven(name, claims))
        text = next((values[0] for values in found if values), "")
        return "".join(letter if letter.isprintable() else " " for letter in text).strip()[:MAX_NAME_CHARS]


def _is_proven(name: str, claims: Mapping[str, Any]) -> bool:
    """Whether a claim may name a person: anybody may enter an address that is not his."""
    return name != "email" or claims.get("email_verified") not in (False, "false")


def _inner(claims: Mapping[str, Any], path: str) -> Any:
    if path in claims:  # a name may contain dots, such as that of a URL
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [text for each in values if isinstance(each, str) and (text := each.strip())]


def lower(*roles: str | None) -> str | None:
    """The lowest of these roles, of which None is unknown; None if all are."""
    return min((role for role in roles if role in RANKS), key=RANKS.index, default=None)


def load(path: str | Path | None) -> RoleMap:
    """The role map in this file; for None the one without a file. Raises RoleMapError."""
    if path is None:
        return RoleMap()
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RoleMapError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return _checked(document, path)


def _checked(document: Mapping[str, Any], path: str | Path) -> RoleMap:
    if unknown := sorted(document.keys() - {"claim", "name", "default", "roles"}):
        raise RoleMapError(f"{path}: unknown key {unknown[0]!r}; known are claim, name, default and [roles]")
    roles = document.get("roles", {})
    texts = [document.get("claim", "groups"), document.get("name", ""), document.get("default", "none")]
    if not isinstance(roles, dict) or not all(isinstance(text, str) for text in texts):
        raise RoleMapError(f"{path}: claim, name and default are texts, and [roles] is a table")
    for value, role in [("default", texts[2]), *roles.items()]:
        if role not in RANKS:
            raise RoleMapError(f"{path}: {value!r} has the role {role!r}; roles are {', '.join(RANKS)}")
    return RoleMap(texts[0], texts[1], texts[2], roles)
