"""Audit log: who requested what, and the outcome. Rows are never changed and outlive the objects they refer to.

Each row is written in the transaction of the change it records, so neither exists without the other.
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
    """Add a row. `actor`: the person; `via`: the name of the token used; `target`: the object changed."""
    values = {"at": at, "actor": actor, "via": via, "action": action, "target": target}
    connection.execute(sa.insert(audit).values(**values, detail=dict(detail or {})))


def read(connection: Connection, limit: int = 100) -> list[dict[str, Any]]:
    """The newest rows, newest first, as mappings of the columns."""
    query = sa.select(audit).order_by(audit.c.key.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]
