"""The bundle of an incident: everything known of it and its queries as one HTML file that needs no network.

`controlplane.api.incidents.routes` calls it. It renders the bodies of the API, so the file has what the API has: failure
texts as they were stored, without secrets, and every text escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controlplane.api.bodies import FailureBody, QueryDetailBody
from controlplane.api.checkpoints.bodies import CheckpointDetailBody
from controlplane.api.fleet.cache import FleetCache
from controlplane.api.incidents.bodies import IncidentBody, IncidentDetailBody, IncidentMemberBody
from controlplane.api.routes.changes import WhatChangedBody, get_what_changed
from controlplane.api.routes.checkpoints import get_checkpoint
from controlplane.api.routes.queries import get_query
from controlplane.app import ControlPlane
from controlplane.errors import NotFound
from controlplane.html_pages import page_environment

T = TypeVar("T")
#: Queries described in full; the table of affected queries has all.
MAX_QUERIES = 50
#: No script, no request: the file holds texts of programs and people.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
ID_CHARS = 8


@dataclass(frozen=True)
class BundledQuery:
    """A member with what is known of it; None where the server no longer has the query."""

    member: IncidentMemberBody
    query: QueryDetailBody | None
    changes: WhatChangedBody | None
    checkpoint: CheckpointDetailBody | None

    @property
    def failure(self) -> FailureBody | None:
        """The failure of the run that was up when the incident took the query down, else of the newest one."""
        if self.query is None:
            return None
        runs = {run.run_id: run.failure for run in self.query.runs}
        return runs.get(self.member.run_id or "") or self.query.failure


def collect(plane: ControlPlane, cache: FleetCache, incident: IncidentBody) -> list[BundledQuery]:
    """The first MAX_QUERIES queries of an incident."""
    return [_query(plane, cache, member) for member in incident.members[:MAX_QUERIES]]


def _query(plane: ControlPlane, cache: FleetCache, member: IncidentMemberBody) -> BundledQuery:
    query_id = member.query_id
    return BundledQuery(
        member,
        _known(lambda: get_query(plane, cache, query_id)),
        _known(lambda: get_what_changed(plane, query_id, member.began_at)),
        _known(lambda: get_checkpoint(plane, query_id)),
    )


def _known(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except NotFound:
        return None


def render(detail: IncidentDetailBody, queries: list[BundledQuery], made_at: str) -> str:
    """The HTML file. `made_at`: RFC 3339."""
    environment = page_environment(Path(__file__).parent)
    environment.filters["utc"] = utc
    return environment.get_template("incident.html").render(
        detail=detail, incident=detail.incident, queries=queries, made_at=made_at
    )


def utc(stamp: str | None) -> str:
    """`2026-11-23T01:55:37.123Z` as `2026-11-23 01:55:37`; a dash where unknown."""
    return stamp[:19].replace("T", " ") if stamp else "–"


def headers(incident_id: str) -> dict[str, str]:
    """Of the answer: a file to download, which a browser that shows it anyway keeps from any request."""
    name = f"incident-{incident_id[:ID_CHARS]}.html"
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
