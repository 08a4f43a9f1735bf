"""Alertmanager's API v2 under `/alertmanager`, for amtool, karma and other clients.

An error is a JSON string, as in Alertmanager; 401 and 403 have the API's own format.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from controlplane.alerting.received_alerts import MAX_RECEIVED_ALERTS
from controlplane.api import alertmanager
from controlplane.api.alertmanager import Filter, PostableSilence
from controlplane.api.deps import CallerDep, ControlPlaneDep, body_of, body_schema, read_json
from controlplane.api.error_formats import ALERTMANAGER_ERROR, error_responses, route_class
from controlplane.api.intake import Claim, read_body

#: A Prometheus sends batches of 64 or 256 alerts.
MAX_POST_BYTES = 4 * 1024 * 1024


def _message(error: RequestValidationError) -> str:
    mistakes = ((mistake.get("loc", ())[1:], mistake.get("msg", "")) for mistake in error.errors()[:3])
    return "; ".join(f"{'.'.join(str(part)[:80] for part in place)}: {what}" for place, what in mistakes)


router = APIRouter(
    prefix="/alertmanager",
    tags=["alertmanager"],
    route_class=route_class(str, _message),
    responses=error_responses(ALERTMANAGER_ERROR, 400, 404, 409, 413, 503),
)
Texts = Annotated[list[str] | None, Query(max_length=100)]
SilenceId = Annotated[uuid.UUID, Path()]
PostableSilenceDep = Annotated[PostableSilence, Depends(body_of(PostableSilence))]


async def _filter(
    filter: Texts = None,
    active: bool = True,
    silenced: bool = True,
    inhibited: bool = True,
    unprocessed: bool = True,
    receiver: Annotated[str | None, Query(max_length=1000)] = None,
) -> Filter:
    """`unprocessed` selects nothing, as an alert is routed as soon as it fires."""
    return alertmanager.filter_of(filter or (), active, silenced, inhibited, receiver)


FilterDep = Annotated[Filter, Depends(_filter)]


@router.get("/api/v2/alerts", summary="Firing alerts")
def list_alerts(plane: ControlPlaneDep, asked: FilterDep) -> Response:
    now = plane.clock()
    views = plane.alerts.alerts(now)
    return JSONResponse(alertmanager.alerts(views, asked, plane.settings.dashboard_url, now))


async def _posted(request: Request) -> Any:
    with Claim(request.app.state.budget) as claim:
        return read_json(await read_body(request, MAX_POST_BYTES, claim))


@router.post("/api/v2/alerts", summary="Take alerts of another program, such as a Prometheus")
def post_alerts(
    plane: ControlPlaneDep, caller: CallerDep, body: Annotated[Any, Depends(_posted)]
) -> Response:
    """The label `alert_source` is added, `external` unless the alert has one. An agent's token that is bound to an
    application posts alerts with its label `app` only. Valid alerts are taken even where others are not.
    """
    taken, mistakes = alertmanager.posted_alerts(body, caller.app, plane.clock())
    if refused := plane.alerting.post_alerts(taken, caller.name):
        mistakes.append(
            f"{refused} alerts refused: the limit of {MAX_RECEIVED_ALERTS} received alerts is reached"
        )
    return JSONResponse("; ".join(mistakes[:10]), 400) if mistakes else Response(status_code=200)


@router.get("/api/v2/alerts/groups", summary="Firing alerts by notification group")
def list_groups(plane: ControlPlaneDep, asked: FilterDep) -> Response:
    now = plane.clock()
    groups, views = plane.alerts.groups(now), plane.alerts.alerts(now)
    return JSONResponse(alertmanager.groups(groups, views, asked, plane.settings.dashboard_url, now))


@router.get("/api/v2/silences", summary="Silences")
def list_silences(plane: ControlPlaneDep, filter: Texts = None) -> Response:
    now = plane.clock()
    return JSONResponse(alertmanager.silences(plane.alerts.silences(now), filter or (), now))


@router.post(
    "/api/v2/silences", summary="Create or change a silence", openapi_extra=body_schema(PostableSilence)
)
def post_silence(plane: ControlPlaneDep, caller: CallerDep, body: PostableSilenceDep) -> Response:
    """A change of an active silence's matchers expires it and creates a new one, whose id is returned."""
    now, queries = plane.clock(), plane.alerts
    old = queries.silence(body.id) if body.id else None
    asked = alertmanager.silence_of(body, old, now)
    who = caller.actor(asked.created_by), caller.name
    made = queries.change_silence(old.id, asked, *who) if old else queries.add_silence(asked, *who)
    return JSONResponse({"silenceID": made.id})


@router.get("/api/v2/silence/{silence_id}", summary="One silence")
def get_silence(plane: ControlPlaneDep, silence_id: SilenceId) -> Response:
    return JSONResponse(alertmanager.silence(plane.alerts.silence(str(silence_id)), plane.clock()))


@router.delete("/api/v2/silence/{silence_id}", summary="Expire a silence")
def delete_silence(plane: ControlPlaneDep, caller: CallerDep, silence_id: SilenceId) -> Response:
    plane.alerts.expire_silence(str(silence_id), caller.actor(), caller.name)
    return Response(status_code=200)


@router.get("/api/v2/status", summary="Version and configuration, without secrets")
def get_status(plane: ControlPlaneDep, request: Request) -> Response:
    ours, began_at = request.app.version, request.app.state.began_at
    return JSONResponse(alertmanager.status(plane.alerts.config, ours, began_at))


@router.get("/api/v2/receivers", summary="Names of the receivers")
def list_receivers(plane: ControlPlaneDep) -> Response:
    return JSONResponse([{"name": name} for name in plane.alerts.config.receivers])


@router.get(
    "/metrics",
    summary="The version of the API as a metric, for karma",
    response_class=Response,  # errors stay JSON
    responses={200: {"content": {"text/plain": {}}}},
)
async def get_metrics() -> Response:
    return PlainTextResponse(alertmanager.BUILD_INFO)
