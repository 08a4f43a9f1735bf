"""Routes of actions: request a stop, start or restart, follow it, list actions; and retire a query.

A request returns as soon as the action is stored; its outcome is read by `GET /actions/{id}`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from controlplane.actions.transitions import NewAction
from controlplane.api.bodies import ActionRequest, ActionsBody, OneActionBody, QueryBody, RetireRequest
from controlplane.api.deps import (
    ActionIdDep,
    CallerDep,
    ControlPlaneDep,
    FleetCacheDep,
    QueriedIdDep,
    QueryIdDep,
    body_of,
    body_schema,
)
from controlplane.api.render import action_body
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.errors import Conflict, NotFound
from controlplane.model import Action, ActionState, QueryStatus, QueryView
from controlplane.runtime.tokens import Token
from controlplane.store import actions as action_rows
from controlplane.supervision_model import Desired, DesiredState

router = APIRouter(prefix="/api/v1", tags=["actions"])
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
ActionRequestDep = Annotated[ActionRequest, Depends(body_of(ActionRequest))]
RetireRequestDep = Annotated[RetireRequest, Depends(body_of(RetireRequest))]


@router.post(
    "/queries/{query_id}/actions",
    status_code=202,
    summary="Stop, start or restart a query",
    openapi_extra=body_schema(ActionRequest),
    responses={200: {"description": "this Idempotency-Key was used before"}, 409: {"description": "refused"}},
)
def post_action(
    plane: ControlPlaneDep,
    caller: CallerDep,
    query_id: QueryIdDep,
    body: ActionRequestDep,
    response: Response,
    idempotency_key: Key = None,
) -> OneActionBody:
    """202 with the open action; 409 with the refused action, which is stored as well."""
    wanted = _new_action(caller, body, idempotency_key)
    action, fresh = plane.supervision.desired.request(view_of(plane, query_id), wanted)
    if action.state == ActionState.REFUSED and action.delivered_at is None:
        raise _conflict(action, view_of(plane, query_id).supervised.desired)
    if not fresh:
        response.status_code = 200
    return OneActionBody(action=action_body(action))


def _new_action(caller: Token, body: ActionRequest, key: str | None) -> NewAction:
    return NewAction(
        action=body.action,
        actor=caller.actor(body.actor),
        via=caller.name,
        drain=body.drain,
        overrides=body.overrides,
        reason=body.reason,
        idempotency_key=key,
        force=body.force,
    )


def _conflict(action: Action, desired: Desired | None) -> Conflict:
    detail = {"action": action_body(action).model_dump(mode="json")}
    reason = action.reason
    if action.action == "stop" and desired is not None and desired.state is not DesiredState.RUNNING:
        reason = f"{reason.rstrip('.')}. Its desired state is {desired.state}, so no policy starts it."
    return Conflict(reason, code=str(action.evidence.get("code") or "refused"), detail=detail)


@router.post("/queries/{query_id}/retire", summary="Retire a query", openapi_extra=body_schema(RetireRequest))
def post_retire(
    plane: ControlPlaneDep,
    cache: FleetCacheDep,
    caller: CallerDep,
    query_id: QueryIdDep,
    body: RetireRequestDep,
) -> QueryBody:
    """The query leaves the fleet and is no longer expected to run; its history stays. Idempotent."""
    view = view_of(plane, query_id)
    if view.run is not None and view.run.ended_at is None and not _lost(plane, view):
        raise Conflict("the query is running; stop it first", code="still_running")
    plane.retire(query_id, caller.actor(body.actor), caller.name, body.reason)
    return cache.row(view_of(plane, query_id), plane.clock())


def _lost(plane: ControlPlane, view: QueryView) -> bool:
    return plane.verdicts.verdict_of(view, plane.clock()).verdict.status == QueryStatus.LOST


@router.get("/actions", summary="Actions, newest first")
def list_actions(
    plane: ControlPlaneDep,
    query_id: QueriedIdDep,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ActionsBody:
    with plane.reading() as conn:
        found = action_rows.list_actions(conn, query_id, limit)
    return ActionsBody(actions=[action_body(action) for action in found])


@router.get("/actions/{action_id}", summary="One action")
def get_action(plane: ControlPlaneDep, action_id: ActionIdDep) -> OneActionBody:
    with plane.reading() as conn:
        action = action_rows.get(conn, action_id)
    if action is None:
        raise NotFound(f"there is no action {action_id}")
    return OneActionBody(action=action_body(action))
