"""Stored bearer tokens: the digest of each, never the secret.

Called by `controlplane.app`, which reads all tokens into memory, and by the command `controlplane token`, which may
run beside a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import tokens


def insert(
    connection: Connection,
    id: str,
    name: str,
    role: str,
    digest: str,
    prefix: str,
    app: str | None,
    created_at: float,
    expires_at: float | None,
    may_impersonate: bool = False,
) -> None:
    """Store a token; IntegrityError if the id or the digest exists."""
    values = {
        "id": id,
        "name": name,
        "role": str(role),
        "digest": digest,
        "prefix": prefix,
        "app": app,
        "created_at": created_at,
        "expires_at": expires_at,
        "may_impersonate": may_impersonate,
    }
    connection.execute(sa.insert(tokens).values(values))


def all(connection: Connection) -> list[Mapping[str, Any]]:
    """Every token, revoked ones included, oldest first, as mappings of the columns."""
    query = sa.select(tokens).order_by(tokens.c.created_at, tokens.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def revoke(connection: Connection, id: str, at: float) -> bool:
    """Revoke a token; False if it does not exist or was revoked before."""
    query = sa.update(tokens).where(tokens.c.id == id, tokens.c.revoked_at.is_(None)).values(revoked_at=at)
    return connection.execute(query).rowcount == 1
