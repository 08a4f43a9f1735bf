"""Bearer tokens as they are kept: the digest, never the secret.

Called by `controlplane.app`, which reads them all into memory, and by `controlplane token`, beside a server.
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
) -> None:
    """IntegrityError when the id or the digest is taken."""
    values = {
        "id": id,
        "name": name,
        "role": str(role),
        "digest": digest,
        "prefix": prefix,
        "app": app,
        "created_at": created_at,
        "expires_at": expires_at,
    }
    connection.execute(sa.insert(tokens).values(values))


def all(connection: Connection) -> list[Mapping[str, Any]]:
    """Every token, revoked ones included, oldest first, as mappings of the columns."""
    query = sa.select(tokens).order_by(tokens.c.created_at, tokens.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def revoke(connection: Connection, id: str, at: float) -> bool:
    """False when there is no such token, or it was revoked before."""
    query = sa.update(tokens).where(tokens.c.id == id, tokens.c.revoked_at.is_(None)).values(revoked_at=at)
    return connection.execute(query).rowcount == 1
