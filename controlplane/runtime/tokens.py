"""Bearer tokens: 256 random bits, kept as SHA-256, looked up in memory.

The API asks `TokenBook.find` on every request, the long poll on the event loop too, so it does no
I/O: the book is read from the store at start, every few seconds, and once when an unknown token
comes (made a moment ago by the command line in another process).
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
    """A token as the store knows it: no secret. `prefix` is what people may see of it."""

    id: str
    name: str
    role: Role
    digest: str
    prefix: str
    app: str | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None

    def columns(self) -> dict[str, Any]:
        """What `store.tokens.insert` takes."""
        names = ("id", "name", "digest", "prefix", "app", "created_at", "expires_at")
        return {name: getattr(self, name) for name in names} | {"role": self.role.value}

    def valid(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def issue(
    name: str, role: Role, now: float, app: str | None = None, expires_at: float | None = None
) -> tuple[str, Token]:
    """A new secret (to be shown once) and its record."""
    body = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    secret = f"cp_{role.value}_{body}"
    token = Token(
        str(uuid.uuid4()), name, role, digest_of(secret), visible_part(secret), app, now, expires_at
    )
    return secret, token


def well_formed(secret: str) -> bool:
    """Could this be one of ours? Spares the store a look for what cannot."""
    return SHAPE.fullmatch(secret) is not None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def visible_part(secret: str) -> str:
    """The role and six characters: enough to tell tokens apart, no help in guessing one."""
    return secret[: secret.index("_", 3) + 7]


class TokenRegistry:
    """All tokens, by digest. `find` takes no lock and does no I/O: `replace` swaps the whole mapping."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._by_digest: dict[str, Token] = {}

    def replace(self, tokens: Iterable[Token]) -> None:
        self._by_digest = {token.digest: token for token in tokens}

    def holds(self, token: Token) -> bool:
        """Is this token still good? It may have been revoked while a poll was held."""
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
    """The secret in a token file; None where there is no such file or it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def write_secret(path: Path, secret: str) -> None:
    """Put a secret into a file that only its owner reads; a reader sees the old or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
