"""Routes of incidents: queries that failed with one cause, and what is stored about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, Response
from sqlalchemy.engine import Connection

from alerts.durations import DAY_SECONDS
from controlplane.alerting.views import AlertView
from controlplane.api import alerting
from controlplane.api.deps import ControlPlaneDep, FleetCacheDep, stretch
from controlplane.api.incidents import bundle
from controlplane.api.incidents.bodies import (
    IncidentBody,
    IncidentDetailBody,
    IncidentEventBody,
    IncidentMemberBody,
    IncidentsBody,
    TrialRestartBody,
)
from controlplane.api.render import action_body, stamp
from controlplane.api.supervision.render import entry_body
from controlplane.app import ControlPlane
from controlplane.errors import NotFound
from controlplane.incident_model import Incident, IncidentMember, TrialRestart
from controlplane.incidents.engine import QUIET_SECONDS
from controlplane.incidents.timeline import IncidentRecord, concerns, responses, timeline
from controlplane.store import actions as action_rows
from controlplane.store import alerting as alert_rows
from controlplane.store import queries as query_rows
from controlplane.store.supervision import incidents, ledger
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1", tags=["supervision"])
DEFAULT_SECONDS = 7 * DAY_SECONDS
#: What is read about the time of an incident, newest first.
MAX_ROWS = 1000
#: Members whose status changes are read.
MAX_MEMBERS = 50
IncidentId = Annotated[str, Path(pattern="^[0-9a-f-]{1,36}$")]


@router.get("/incidents", summary="Incidents: queries that failed with one cause; newest first")
def list_incidents(
    plane: ControlPlaneDep,
    start: Annotated[str | None, Query(description="RFC 3339 or Unix seconds; default: a week ago")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> IncidentsBody:
    """The open ones, and those that ended since `start`."""
    now = plane.clock()
    since, _ = stretch(start, None, now, DEFAULT_SECONDS)
    with plane.reading() as conn:
        found = incidents.read(conn, since, limit)
    return IncidentsBody(incidents=[incident_body(record) for record in _with_responses(plane, found, now)])


def _with_responses(plane: ControlPlane, found: list[Incident], now: float) -> list[IncidentRecord]:
    """The incidents with their alerts, notifications and acknowledgements."""
    if not found:
        return []
    alerts = [v.alert for v in plane.alerts.history(min(i.began_at for i in found), now, None, MAX_ROWS)]
    notes = plane.alerts.notes(MAX_ROWS)
    with plane.reading() as conn:
        acknowledgements = alert_rows.all_acknowledgements(conn)
    return [responses(i, _until(i, now), alerts, notes, acknowledgements) for i in found]


@router.get("/incidents/{incident_id}", summary="An incident with everything stored about it")
def get_incident(plane: ControlPlaneDep, incident_id: IncidentId) -> IncidentDetailBody:
    """Alerts, notifications, acknowledgements, actions, decisions and status changes of its queries while it was open."""
    with plane.reading() as conn:
        incident = incidents.get(conn, incident_id)
    if incident is None:
        raise NotFound(f"there is no incident {incident_id}")
    until = _until(incident, plane.clock())
    views = _alerts(plane, incident, until)
    with plane.reading() as conn:
        record = _record(plane, conn, incident, views, until)
    return _detail(record, views)


@router.get(
    "/incidents/{incident_id}/bundle",
    summary="An incident with its queries as one HTML file",
    response_class=Response,  # errors stay JSON
    responses={200: {"content": {"text/html": {}}}},
)
def get_incident_bundle(plane: ControlPlaneDep, cache: FleetCacheDep, incident_id: IncidentId) -> Response:
    """For a report or a ticket: what the page of the incident shows, and of each query the verdict, failure, runs, what
    changed and the checkpoint. The file needs no network and has no script.
    """
    detail = get_incident(plane, incident_id)
    page = bundle.render(detail, bundle.collect(plane, cache, detail.incident), rfc3339(plane.clock()))
    return HTMLResponse(page, headers=bundle.headers(detail.incident.id))


def _until(incident: Incident, now: float) -> float:
    """The end of what belongs to an incident."""
    return now if incident.ended_at is None else incident.ended_at + QUIET_SECONDS


def _alerts(plane: ControlPlane, incident: Incident, until: float) -> list[AlertView]:
    """The alerts that concern the incident, newest first; those that fire with what silences and inhibits them."""
    firing = {v.alert.fingerprint: v for v in plane.alerts.alerts(plane.clock())}
    past = plane.alerts.history(incident.began_at, until, None, MAX_ROWS)
    mine = (view for view in past if concerns(view.alert, incident))
    return [v if v.alert.resolved_at else firing.get(v.alert.fingerprint, v) for v in mine]


def _record(
    plane: ControlPlane, conn: Connection, incident: Incident, views: list[AlertView], until: float
) -> IncidentRecord:
    """What is stored about the incident between its beginning and `until`."""
    since, members = incident.began_at, {member.query_id for member in incident.members}
    found = responses(
        incident,
        until,
        [view.alert for view in views],
        alert_rows.logged_notifications(conn, MAX_ROWS),
        alert_rows.all_acknowledgements(conn),
    )
    return replace(
        found,
        statuses=[
            (query_id, row["at"], row["status"], row["reason"])
            for query_id in sorted(members)[:MAX_MEMBERS]
            for row in query_rows.status_changes(conn, query_id)
            if since <= row["at"] <= until
        ],
        actions=[
            action
            for action in action_rows.list_actions(conn, None, MAX_ROWS)
            if action.query_id in members and since <= action.requested_at <= until
        ],
        decisions=[
            e for e in ledger.read(conn, None, since, MAX_ROWS) if e.query_id in members and e.at <= until
        ],
    )


def _detail(record: IncidentRecord, views: list[AlertView]) -> IncidentDetailBody:
    return IncidentDetailBody(
        incident=incident_body(record),
        alerts=list(map(alerting.alert_body, views)),
        notifications=list(map(alerting.note_body, record.notifications)),
        actions=list(map(action_body, record.actions)),
        decisions=list(map(entry_body, record.decisions)),
        timeline=[
            IncidentEventBody(at=rfc3339(e.at), kind=e.kind, query_id=e.query_id, text=e.text)
            for e in timeline(record)
        ],
    )


def incident_body(record: IncidentRecord) -> IncidentBody:
    """An incident with its members, those that are down first."""
    incident, acknowledged = record.incident, record.acknowledgement
    members = sorted(incident.members, key=lambda m: (m.until is not None, m.began_at, m.query_id))
    return IncidentBody(
        id=incident.id,
        kind=incident.cause.kind.value,
        cause=incident.cause.value,
        sentence=incident.sentence,
        began_at=rfc3339(incident.began_at),
        ended_at=stamp(incident.ended_at),
        down=len(incident.down),
        members=list(map(_member, members)),
        trial=_trial(incident.trial) if incident.trial is not None else None,
        receivers=list(record.receivers),
        acknowledged=alerting.acknowledged_body(acknowledged),
    )


def _member(member: IncidentMember) -> IncidentMemberBody:
    times = {
        "began_at": rfc3339(member.began_at),
        "since": rfc3339(member.since),
        "until": stamp(member.until),
    }
    return IncidentMemberBody(**vars(member) | times)


def _trial(trial: TrialRestart) -> TrialRestartBody:
    return TrialRestartBody(**vars(trial) | {"at": rfc3339(trial.at), "state": trial.state.value})
