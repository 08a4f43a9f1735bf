"""Routes of alerts: current and past alerts, notifications and acknowledgement.

`controlplane.alerting.alert_queries` decides what is muted and acknowledged.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from alerts.matching.labels import matches
from alerts.state import AlertState
from controlplane.alerting.views import AlertView
from controlplane.api import alerting
from controlplane.api.alerting_bodies import (
    AcknowledgeRequest,
    AlertDetailBody,
    AlertsBody,
    AlertStatisticsBody,
    NotesBody,
    OneAlertBody,
    PastAlertsBody,
    ReceiversBody,
    RuleStatisticsBody,
    TrialBody,
    TrialRequest,
)
from controlplane.api.deps import CallerDep, ControlPlaneDep, QueriedIdDep, body_of, body_schema, stretch
from controlplane.api.routes.queries import Labels, Moment
from controlplane.app import ControlPlane

router = APIRouter(prefix="/api/v1", tags=["alerts"])
DEFAULT_RANGE = 86400.0  # seconds
STATISTICS_RANGE = 30 * DEFAULT_RANGE

Fingerprint = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="of the alert's labels")]
Limit = Annotated[int, Query(ge=1, le=1000)]
AcknowledgeRequestDep = Annotated[AcknowledgeRequest, Depends(body_of(AcknowledgeRequest))]
TrialRequestDep = Annotated[TrialRequest, Depends(body_of(TrialRequest))]


@router.get("/alerts", summary="Alerts, firing first")
def list_alerts(
    plane: ControlPlaneDep,
    query_id: QueriedIdDep,
    state: Annotated[list[AlertState] | None, Query(description="May be repeated; default: all")] = None,
    label: Labels = None,
) -> AlertsBody:
    """Pending, firing, and resolved within the last 15 minutes. `query_id`: of this query and of its whole app."""
    now = plane.clock()
    wanted = alerting.matchers_of("label", label or ())
    views = [view for view in plane.alerts.alerts(now) if matches(wanted, view.alert.labels)]
    if query_id is not None:
        views = _about(plane, views, query_id)
    return alerting.alerts_body(views, state or (), now)


def _about(plane: ControlPlane, views: list[AlertView], query_id: str) -> list[AlertView]:
    query = plane.window.view(query_id)
    app = query.app if query else None
    return [view for view in views if alerting.is_about(view.alert, query_id, app)]


@router.get("/alerts/history", summary="Alerts that fired, newest first")
def get_alert_history(
    plane: ControlPlaneDep,
    query_id: QueriedIdDep,
    start: Moment = None,
    end: Moment = None,
    limit: Limit = 200,
) -> PastAlertsBody:
    """Alerts that fired at any time between `start` and `end`; by default within the last day. `query_id`: of this query
    and of its whole app."""
    since, until = stretch(start, end, plane.clock(), DEFAULT_RANGE)
    query = plane.window.view(query_id) if query_id is not None else None
    found = plane.alerts.history(since, until, query_id, limit, query.app if query else None)
    return PastAlertsBody(alerts=[alerting.alert_body(view) for view in found])


@router.get("/alerts/statistics", summary="How often and how long each rule fired, and of what use")
def get_alert_statistics(
    plane: ControlPlaneDep, start: Moment = None, end: Moment = None
) -> AlertStatisticsBody:
    """Of alerts that fired at any time between `start` and `end`; by default within the last 30 days."""
    since, until = stretch(start, end, plane.clock(), STATISTICS_RANGE)
    found = plane.alerts.rule_statistics(since, until)
    return AlertStatisticsBody(rules=[RuleStatisticsBody(**vars(entry)) for entry in found])


@router.get("/alerts/{fingerprint}", summary="An alert and its notifications")
def get_alert(plane: ControlPlaneDep, fingerprint: Fingerprint, limit: Limit = 100) -> AlertDetailBody:
    """The current state, or the last state of a resolved alert."""
    view = plane.alerts.alert(fingerprint, plane.clock())
    notes = plane.alerts.notes(limit, fingerprint)
    return AlertDetailBody(
        alert=alerting.alert_body(view), notifications=[alerting.note_body(note) for note in notes]
    )


@router.post(
    "/alerts/{fingerprint}/acknowledge",
    summary="Acknowledge an alert",
    openapi_extra=body_schema(AcknowledgeRequest),
)
def post_acknowledge(
    plane: ControlPlaneDep, caller: CallerDep, fingerprint: Fingerprint, body: AcknowledgeRequestDep
) -> OneAlertBody:
    """Notifications are not repeated while it fires; the resolution is still notified. 409 if it does not fire."""
    view = plane.alerts.acknowledge(fingerprint, caller.actor(body.actor), caller.name, body.comment)
    return OneAlertBody(alert=alerting.alert_body(view))


@router.get("/notifications", summary="Notifications sent and not sent, with the reasons; newest first")
def list_notifications(
    plane: ControlPlaneDep,
    limit: Limit = 100,
    fingerprint: Annotated[str | None, Query(pattern="^[0-9a-f]{16}$")] = None,
) -> NotesBody:
    notes = plane.alerts.notes(limit, fingerprint)
    return NotesBody(notifications=[alerting.note_body(note) for note in notes])


@router.get("/receivers", summary="Receivers of notifications, and whether they deliver")
def list_receivers(plane: ControlPlaneDep) -> ReceiversBody:
    return alerting.receivers_body(plane.alerts.receivers(), plane.alerts.delivery_problem())


@router.post(
    "/receivers/try",
    summary="Send a trial notification to a receiver",
    openapi_extra=body_schema(TrialRequest),
)
def post_trial(plane: ControlPlaneDep, caller: CallerDep, body: TrialRequestDep) -> TrialBody:
    """Waits for every integration of the receiver, and resolves the trial where it is notified of resolved alerts."""
    results = plane.alerts.try_receiver(body.receiver, caller.actor(body.actor), caller.name)
    return alerting.trial_body(body.receiver, results)
