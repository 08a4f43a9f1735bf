"""Routes of silences: create, list, expire. Alerts of an active silence are shown but not notified."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from alerts.silences import Silence, SilenceState
from alerts.state import Alert, AlertState
from controlplane.api import alerting
from controlplane.api.alerting_bodies import OneSilenceBody, SilenceRequest, SilencesBody
from controlplane.api.deps import CallerDep, ControlPlaneDep, body_of, body_schema
from controlplane.app import ControlPlane

router = APIRouter(prefix="/api/v1/silences", tags=["silences"])
SilenceRequestDep = Annotated[SilenceRequest, Depends(body_of(SilenceRequest))]


@router.get("", summary="Silences, newest first")
def list_silences(
    plane: ControlPlaneDep,
    active: Annotated[bool | None, Query(description="Only those that last now, or only the others")] = None,
) -> SilencesBody:
    """Those of the Alertmanagers to which alerts are also sent come last, with the name of the Alertmanager."""
    now, firing = plane.clock(), _firing(plane)
    found = [(item, None) for item in plane.alerts.silences(now)]
    servers = reversed(plane.alerts.alertmanagers())  # those of a cluster have the same silences
    others = {item.id: (item, server.name) for server in servers for item in server.silences}.values()
    shown = [
        alerting.silence_body(item, firing, now, origin)
        for item, origin in (*found, *others)
        if active is None or (item.state(now) is SilenceState.ACTIVE) is active
    ]
    return SilencesBody(silences=shown)


@router.post("", status_code=201, summary="Create a silence", openapi_extra=body_schema(SilenceRequest))
def post_silence(plane: ControlPlaneDep, caller: CallerDep, body: SilenceRequestDep) -> OneSilenceBody:
    actor = caller.actor(body.actor)
    asked = alerting.silence_of(body, actor, plane.clock())
    return _shown(plane, plane.alerts.add_silence(asked, actor, caller.name))


@router.delete("/{silence_id}", summary="Expire a silence")
def delete_silence(
    plane: ControlPlaneDep,
    caller: CallerDep,
    silence_id: Annotated[uuid.UUID, Path()],
    actor: Annotated[str | None, Query(max_length=200, description="the person, where a page asks")] = None,
) -> OneSilenceBody:
    """The silence stays in the store, and the audit log names who expired it. Idempotent."""
    person = caller.actor((actor or "").strip())
    return _shown(plane, plane.alerts.expire_silence(str(silence_id), person, caller.name))


def _shown(plane: ControlPlane, silence: Silence) -> OneSilenceBody:
    return OneSilenceBody(silence=alerting.silence_body(silence, _firing(plane), plane.clock()))


def _firing(plane: ControlPlane) -> list[Alert]:
    views = plane.alerts.alerts(plane.clock())
    return [view.alert for view in views if view.alert.state is AlertState.FIRING]
