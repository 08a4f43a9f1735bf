"""Failures for the tests of incidents."""

from __future__ import annotations

from controlplane.incident_model import Cause, CauseKind, IncidentMember
from controlplane.incidents.engine import QueryFailure
from tests.unit.controlplane.actions.views import NOW


def cause(text: str) -> Cause:
    """`sink:/out` as a cause."""
    kind, _, value = text.partition(":")
    return Cause(CauseKind(kind), value)


def failure(
    query_id: str, *causes: str, after: float = 0.0, driver: str = "", status: str = "failed"
) -> QueryFailure:
    """A query that went down `after` seconds after `NOW`."""
    at = NOW + after
    of = driver or f"driver-{query_id}"
    app = f"app-{driver or query_id}"
    member = IncidentMember(query_id, app, query_id, f"run-{query_id}", status, at, at, driver=of)
    return QueryFailure(member, frozenset(map(cause, causes)))
