"""Who asked for what, and what became of it. Rows are only added, and outlive what they tell of.

Written in the same transaction as the deed, so that there is neither without the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.store.tables import audit


def record(
    connection: Connection,
    at: float,
    actor: str,
    via: str,
    action: str,
    target: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """`actor`: the person; `via`: the token's name that spoke for them; `target`: what it was done to."""
    values = {"at": at, "actor": actor, "via": via, "action": action, "target": target}
    connection.execute(sa.insert(audit).values(**values, detail=dict(detail or {})))


def read(connection: Connection, limit: int = 100) -> list[dict[str, Any]]:
    """Newest first."""
    query = sa.select(audit).order_by(audit.c.key.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]
