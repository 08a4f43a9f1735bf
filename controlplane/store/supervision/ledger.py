"""Stored ledger: every decision of a policy, and its outcome, which is filled in later."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Index, Table
from sqlalchemy.engine import Connection

from controlplane.store.tables import CleanText, Json, Key, Seconds, metadata
from controlplane.supervision_model import Assessment, DecisionKind, DecisionOutcome, LedgerEntry

ledger = Table(
    "ledger",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", CleanText, nullable=False, unique=True),
    Column("at", Seconds, nullable=False),
    Column("query_id", CleanText, nullable=False),
    Column("app", CleanText, nullable=False),
    Column("name", CleanText),
    Column("policy", CleanText, nullable=False),
    Column("mode", CleanText, nullable=False),
    Column("trigger", CleanText, nullable=False),
    Column("decision", CleanText, nullable=False),
    Column("code", CleanText, nullable=False),
    Column("why", CleanText, nullable=False),
    Column("acted", Boolean(create_constraint=False), nullable=False),
    Column("action_id", CleanText),
    Column("run_id", CleanText),
    Column("condition", CleanText),
    Column("trouble_since", Seconds, nullable=False),
    Column("inputs", Json, nullable=False),
    Column("outcome", CleanText),
    Column("outcome_at", Seconds),
    Column("outcome_why", CleanText, nullable=False),
    Column("assessment", CleanText),
    Index(None, "query_id", "at"),
    Index(None, "at"),
    Index(None, "outcome"),
)
_FIELDS = tuple(f.name for f in fields(LedgerEntry))
#: What may change after the decision.
_LATER = ("acted", "action_id", "inputs", "outcome", "outcome_at", "outcome_why", "assessment")


def insert(connection: Connection, entry: LedgerEntry) -> None:
    """Store a decision."""
    connection.execute(sa.insert(ledger).values(_values(entry)))


def update(connection: Connection, entry: LedgerEntry) -> None:
    """Store what became of a decision."""
    values = {name: value for name, value in _values(entry).items() if name in _LATER}
    connection.execute(sa.update(ledger).where(ledger.c.id == entry.id).values(values))


def of_query(connection: Connection, query_id: str, since: float) -> list[LedgerEntry]:
    """The decisions about a query since `since`, oldest first."""
    query = sa.select(ledger).where(ledger.c.query_id == query_id, ledger.c.at >= since)
    return _entries(connection, query.order_by(ledger.c.at, ledger.c.key))


def open_entries(connection: Connection) -> list[LedgerEntry]:
    """The decisions whose outcome is still to come, oldest first."""
    query = sa.select(ledger).where(ledger.c.outcome == DecisionOutcome.OPEN.value)
    return _entries(connection, query.order_by(ledger.c.at, ledger.c.key))


def read(
    connection: Connection, query_id: str | None = None, since: float = 0.0, limit: int = 1000
) -> list[LedgerEntry]:
    """The newest decisions since `since`, newest first, about one query or all."""
    query = sa.select(ledger).where(ledger.c.at >= since)
    if query_id is not None:
        query = query.where(ledger.c.query_id == query_id)
    return _entries(connection, query.order_by(ledger.c.at.desc(), ledger.c.key.desc()).limit(limit))


def counts(
    connection: Connection, query_id: str | None = None, since: float = 0.0
) -> list[tuple[str, str, str | None, int]]:
    """Number of decisions since `since` by mode, decision and assessment."""
    by = (ledger.c.mode, ledger.c.decision, ledger.c.assessment)
    query = sa.select(*by, sa.func.count()).where(ledger.c.at >= since).group_by(*by)
    if query_id is not None:
        query = query.where(ledger.c.query_id == query_id)
    return [(mode, decision, value, int(count)) for mode, decision, value, count in connection.execute(query)]


def delete_before(connection: Connection, before: float) -> int:
    """Delete old decisions whose outcome is known; returns their number."""
    is_open = ledger.c.outcome.is_not_distinct_from(DecisionOutcome.OPEN.value)
    return connection.execute(sa.delete(ledger).where(ledger.c.at < before, ~is_open)).rowcount


def _values(entry: LedgerEntry) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in _FIELDS}
    return values | {
        "decision": entry.decision.value,
        "inputs": dict(entry.inputs),
        "outcome": entry.outcome.value if entry.outcome else None,
        "assessment": entry.assessment.value if entry.assessment else None,
    }


def _entries(connection: Connection, query: sa.Select[Any]) -> list[LedgerEntry]:
    return [_entry(row) for row in connection.execute(query).mappings()]


def _entry(row: Any) -> LedgerEntry:
    values = {name: row[name] for name in _FIELDS}
    return LedgerEntry(
        **values
        | {
            "decision": DecisionKind(row["decision"]),
            "outcome": DecisionOutcome(row["outcome"]) if row["outcome"] else None,
            "assessment": Assessment(row["assessment"]) if row["assessment"] else None,
        }
    )
