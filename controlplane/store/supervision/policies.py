"""Stored policy documents: each version with its author; the newest is in force."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Table
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Key, Seconds, metadata

policies = Table(
    "policies",
    metadata,
    Column("version", Key, primary_key=True),
    Column("at", Seconds, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("text", CleanText, nullable=False),
)


@dataclass(frozen=True)
class PolicyDocument:
    """A version of the policies as YAML. Versions ascend from 1; 0 is the built-in document."""

    version: int
    text: str
    actor: str = ""
    at: float = 0.0
    reason: str = ""


def add(connection: Connection, text: str, actor: str, at: float, reason: str = "") -> PolicyDocument:
    """Store a new version, which is in force from now on."""
    values = {"at": at, "actor": actor, "reason": reason, "text": text}
    key = connection.execute(sa.insert(policies).values(values)).inserted_primary_key
    assert key is not None
    return PolicyDocument(int(key[0]), text, actor, at, reason)


def newest(connection: Connection) -> PolicyDocument | None:
    """The document in force; None before the first."""
    return next(iter(history(connection, 1)), None)


def history(connection: Connection, limit: int = 50) -> list[PolicyDocument]:
    """The newest versions, newest first."""
    query = sa.select(policies).order_by(policies.c.version.desc()).limit(limit)
    return [
        PolicyDocument(row["version"], row["text"], row["actor"], row["at"], row["reason"])
        for row in connection.execute(query).mappings()
    ]
