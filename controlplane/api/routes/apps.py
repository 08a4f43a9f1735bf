"""Routes of applications: declare them, list them, start, stop and restart their drivers, read their output."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from controlplane.api.app_bodies import (
    AppActionRequest,
    AppBody,
    AppliedBody,
    AppLogsBody,
    AppsBody,
    AppsRequest,
    OneAppActionBody,
    action_body,
    app_body,
)
from controlplane.api.deps import CallerDep, ControlPlaneDep, body_of, body_schema
from controlplane.app import ControlPlane
from controlplane.apps import apps_file
from controlplane.apps.model import AppActionState, NewAppAction
from controlplane.apps.service import KnownApp
from controlplane.errors import BadRequest, Conflict, Forbidden
from controlplane.model import Agent, QueryView, Role
from listeners.protocol import redaction

router = APIRouter(prefix="/api/v1", tags=["applications"])
MAX_AGENTS = 5  # of an application, newest first
AppName = Annotated[str, Path(max_length=100, description="the application's name")]
AppsRequestDep = Annotated[AppsRequest, Depends(body_of(AppsRequest))]
AppActionRequestDep = Annotated[AppActionRequest, Depends(body_of(AppActionRequest))]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


@router.get("/apps", summary="Declared applications")
def list_apps(plane: ControlPlaneDep) -> AppsBody:
    """Each with its desired state, its driver's state, its agents and queries."""
    return AppsBody(apps=_bodies(plane, plane.apps.apps()), launchers=sorted(plane.settings.launchers))


@router.put("/apps", summary="Declare the applications of a file", openapi_extra=body_schema(AppsRequest))
def put_apps(plane: ControlPlaneDep, caller: CallerDep, body: AppsRequestDep) -> AppliedBody:
    """The file replaces the previous one; nothing is started. 400 with `detail.mistakes` lists every error's place."""
    specs, mistakes = apps_file.load(body.text)
    if mistakes:
        listed = [{"line": m.line, "column": m.column, "message": m.message} for m in mistakes]
        raise BadRequest(f"the file: {mistakes[0]}", code="bad_file", detail={"mistakes": listed})
    return AppliedBody(changes=plane.apps.apply(specs, caller.actor(body.actor), caller.name))


@router.get("/apps/{app}", summary="One application")
def get_app(plane: ControlPlaneDep, app: AppName) -> AppBody:
    return _bodies(plane, [plane.apps.app(app)])[0]


@router.get("/apps/{app}/logs", summary="The end of the driver's output")
def get_logs(
    plane: ControlPlaneDep, app: AppName, lines: Annotated[int, Query(ge=1, le=5000)] = 100
) -> AppLogsBody:
    """Secrets of known forms are masked."""
    return AppLogsBody(app=app, text=redaction.mask(plane.apps.logs(app, lines)))


@router.post(
    "/apps/{app}/actions",
    status_code=202,
    summary="Start, stop or restart an application",
    openapi_extra=body_schema(AppActionRequest),
    responses={200: {"description": "the action has ended"}, 409: {"description": "refused"}},
)
def post_action(
    plane: ControlPlaneDep,
    caller: CallerDep,
    app: AppName,
    body: AppActionRequestDep,
    response: Response,
    idempotency_key: Key = None,
) -> OneAppActionBody:
    """200 with the ended action, 202 with one that still runs, 409 with a refused one."""
    if body.force and caller.role is not Role.ADMIN:
        raise Forbidden("only an admin may force a start: a second driver would damage the checkpoints")
    wanted = NewAppAction(
        body.action,
        caller.actor(body.actor),
        caller.name,
        body.reason,
        body.drain,
        body.force,
        idempotency_key,
    )
    action, _ = plane.apps.request(app, wanted)
    shown = action_body(action)
    if action.state is AppActionState.REFUSED:
        raise Conflict(
            action.reason, code="driver_may_live", detail={"action": shown.model_dump(mode="json")}
        )
    if action.state is not AppActionState.RUNNING:
        response.status_code = 200
    return OneAppActionBody(action=shown)


def _bodies(plane: ControlPlane, apps: Iterable[KnownApp]) -> list[AppBody]:
    views: dict[str, list[QueryView]] = defaultdict(list)
    for view in plane.fleet():
        views[view.app].append(view)
    agents: dict[str, list[Agent]] = defaultdict(list)
    for agent in plane.window.agents():
        agents[agent.app].append(agent)
    now = plane.clock()
    return [
        app_body(
            app,
            agents[app.spec.name][:MAX_AGENTS],
            [(view, plane.verdicts.verdict_of(view, now).verdict) for view in views[app.spec.name]],
        )
        for app in apps
    ]
