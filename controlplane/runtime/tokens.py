"""Bearer tokens: 256 random bits, stored as SHA-256, looked up in memory.

The API calls `TokenRegistry.find` for every request, on the event loop as well, so it does no I/O. The registry is
loaded from the store at the start, every few seconds, and when an unknown token arrives, which the command line may
just have created in another process.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.model import Role

SHAPE = re.compile(rf"cp_({'|'.join(Role)})_[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True)
class Token:
    """A token without its secret. `prefix` is the part that people may see.

    `may_impersonate`: the server accepts from it for whom a request is made, as the dashboard states it.
    """

    id: str
    name: str
    role: Role
    digest: str
    prefix: str
    app: str | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None
    may_impersonate: bool = False
    person: str | None = None  # for whom this request is; not stored

    def actor(self, stated: str | None = None) -> str:
        """Who acts: the person, or `stated` by the body where the token may impersonate, else the token's name."""
        return self.person or (stated if self.may_impersonate else None) or self.name

    def columns(self) -> dict[str, Any]:
        """The arguments of `controlplane.store.tokens.insert`."""
        names = ("id", "name", "digest", "prefix", "app", "created_at", "expires_at", "may_impersonate")
        return {name: getattr(self, name) for name in names} | {"role": self.role.value}

    def valid(self, now: float) -> bool:
        """Whether the token is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def issue(
    name: str,
    role: Role,
    now: float,
    app: str | None = None,
    expires_at: float | None = None,
    may_impersonate: bool = False,
) -> tuple[str, Token]:
    """Create a token; returns its secret, to be shown once, and the token."""
    body = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    secret = f"cp_{role.value}_{body}"
    token = Token(
        id=str(uuid.uuid4()),
        name=name,
        role=role,
        digest=digest_of(secret),
        prefix=visible_prefix(secret),
        app=app,
        created_at=now,
        expires_at=expires_at,
        may_impersonate=may_impersonate,
    )
    return secret, token


def is_token_shaped(secret: str) -> bool:
    """Whether the text has the form of a token; other texts need no lookup in the store."""
    return SHAPE.fullmatch(secret) is not None


def digest_of(secret: str) -> str:
    """SHA-256 of the secret in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def visible_prefix(secret: str) -> str:
    """The role and six characters: enough to distinguish tokens, no help in guessing one."""
    return secret[: secret.index("_", 3) + 7]


class TokenRegistry:
    """All tokens, by digest. `find` takes no lock and does no I/O: `replace` swaps the whole mapping."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._by_digest: dict[str, Token] = {}

    def replace(self, tokens: Iterable[Token]) -> None:
        """Replace all tokens."""
        self._by_digest = {token.digest: token for token in tokens}

    def all(self) -> list[Token]:
        """Every token, revoked ones included, oldest first."""
        return sorted(self._by_digest.values(), key=lambda token: (token.created_at, token.id))

    def holds(self, token: Token) -> bool:
        """Whether the token is still valid. It may have been revoked during a long poll."""
        known = self._by_digest.get(token.digest)
        return known is not None and known.valid(self._clock())

    def find(self, secret: str) -> Token | None:
        """The valid token of this secret, or None."""
        digest = digest_of(secret)
        token = self._by_digest.get(digest)
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        return token if token.valid(self._clock()) else None


def read_secret(path: Path) -> str | None:
    """The secret in a token file; None if the file is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a file with mode 0600, atomically: a reader sees the old or the new secret."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
