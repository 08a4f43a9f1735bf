"""Stored actions. Their states change by conditional updates only.

Of two concurrent steps on one action the second is therefore rejected. Called by `controlplane.actions.service` and,
for reading, by the API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from controlplane.model import Action, ActionState
from controlplane.store.tables import actions

FIELDS = tuple(f.name for f in fields(Action))
OPEN = tuple(state.value for state in ActionState if not state.final)
#: Columns of the request, which never change.
FIXED = ("id", "query_id", "app", "name", "action", "actor", "requested_at", "idempotency_key")


def insert(connection: Connection, action: Action) -> None:
    """Store a new action; IntegrityError if its id or the query's idempotency key exists."""
    connection.execute(sa.insert(actions).values(_values(action)))


def get(connection: Connection, id: str) -> Action | None:
    """The action with this id, or None."""
    return _first(connection, sa.select(actions).where(actions.c.id == id))


def by_idempotency_key(connection: Connection, key: str, query_id: str) -> Action | None:
    """The action of a query that was requested with this Idempotency-Key, or None."""
    query = sa.select(actions).where(actions.c.idempotency_key == key, actions.c.query_id == query_id)
    return _first(connection, query)


def all_by_key(connection: Connection, key: str, query_ids: Sequence[str]) -> list[Action]:
    """The actions of these queries that were requested with this Idempotency-Key, oldest first."""
    asked = sa.select(actions).where(actions.c.query_id.in_(query_ids), actions.c.idempotency_key == key)
    return _all(connection, asked.order_by(actions.c.key))


def update(connection: Connection, action: Action, expected_state: ActionState) -> bool:
    """Store the action's new state if it still is in `expected_state`; False if another step changed it first."""
    values = {name: value for name, value in _values(action).items() if name not in FIXED}
    query = sa.update(actions).where(actions.c.id == action.id, actions.c.state == str(expected_state))
    return connection.execute(query.values(values)).rowcount == 1


def open_for_query(connection: Connection, query_id: str) -> Action | None:
    """The open action of a query, or None."""
    query = sa.select(actions).where(actions.c.query_id == query_id, actions.c.state.in_(OPEN))
    return _first(connection, query.order_by(actions.c.key))


def open_actions(connection: Connection) -> list[Action]:
    """All open actions, oldest first."""
    return _all(connection, sa.select(actions).where(actions.c.state.in_(OPEN)).order_by(actions.c.key))


def list_actions(connection: Connection, query_id: str | None = None, limit: int = 100) -> list[Action]:
    """The newest actions, newest first, of one query or of all."""
    query = sa.select(actions).order_by(actions.c.key.desc()).limit(limit)
    if query_id is not None:
        query = query.where(actions.c.query_id == query_id)
    return _all(connection, query)


def _values(action: Action) -> dict[str, Any]:
    values = {name: getattr(action, name) for name in FIELDS}
    return values | {
        "state": action.state.value,
        "overrides": dict(action.overrides),
        "evidence": dict(action.evidence),
    }


def _first(connection: Connection, query: sa.Select[Any]) -> Action | None:
    row = connection.execute(query.limit(1)).mappings().first()
    return _action(row) if row else None


def _all(connection: Connection, query: sa.Select[Any]) -> list[Action]:
    return [_action(row) for row in connection.execute(query).mappings()]


def _action(row: Any) -> Action:
    values = {name: row[name] for name in FIELDS}
    return Action(**values | {"state": ActionState(row["state"])})
