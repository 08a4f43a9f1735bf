"""Stored incidents, each with its members and its trial restart as one document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table
from sqlalchemy.engine import Connection

from controlplane.incident_model import Cause, CauseKind, Incident, IncidentMember, TrialRestart, TrialState
from controlplane.store.tables import CleanText, Json, Seconds, metadata

incidents = Table(
    "incidents",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("kind", CleanText, nullable=False),
    Column("value", CleanText, nullable=False),
    Column("sentence", CleanText, nullable=False),
    Column("began_at", Seconds, nullable=False),
    Column("ended_at", Seconds),
    Column("members", Json, nullable=False),
    Column("trial", Json),
    Index(None, "began_at"),
    Index(None, "ended_at"),
)


def put(connection: Connection, changed: Iterable[Incident]) -> None:
    """Insert or replace incidents."""
    for incident in changed:
        values = _values(incident)
        mine = incidents.c.id == incident.id
        if not connection.execute(sa.update(incidents).where(mine).values(values)).rowcount:
            connection.execute(sa.insert(incidents).values(id=incident.id, **values))


def get(connection: Connection, id: str) -> Incident | None:
    """The incident with this id, or None."""
    return next(iter(_all(connection, sa.select(incidents).where(incidents.c.id == id))), None)


def open_incidents(connection: Connection) -> list[Incident]:
    """The open incidents, oldest first."""
    query = sa.select(incidents).where(incidents.c.ended_at.is_(None))
    return _all(connection, query.order_by(incidents.c.began_at, incidents.c.id))


def read(connection: Connection, since: float, limit: int) -> list[Incident]:
    """The open incidents and those that ended after `since`, newest first."""
    recent = incidents.c.ended_at.is_(None) | (incidents.c.ended_at >= since)
    order = incidents.c.began_at.desc(), incidents.c.id
    return _all(connection, sa.select(incidents).where(recent).order_by(*order).limit(limit))


def delete_before(connection: Connection, before: float) -> None:
    """Delete the incidents that ended before this time."""
    connection.execute(sa.delete(incidents).where(incidents.c.ended_at < before))


def _values(incident: Incident) -> dict[str, Any]:
    return {
        "kind": incident.cause.kind.value,
        "value": incident.cause.value,
        "sentence": incident.sentence,
        "began_at": incident.began_at,
        "ended_at": incident.ended_at,
        "members": [asdict(member) for member in incident.members],
        "trial": asdict(incident.trial) if incident.trial is not None else None,
    }


def _all(connection: Connection, query: sa.Select[Any]) -> list[Incident]:
    return [_incident(row) for row in connection.execute(query).mappings()]


def _incident(row: Any) -> Incident:
    trial = row["trial"]
    return Incident(
        id=row["id"],
        cause=Cause(CauseKind(row["kind"]), row["value"]),
        sentence=row["sentence"],
        began_at=row["began_at"],
        members=tuple(IncidentMember(**member) for member in row["members"]),
        trial=TrialRestart(**trial | {"state": TrialState(trial["state"])}) if trial else None,
        ended_at=row["ended_at"],
    )
