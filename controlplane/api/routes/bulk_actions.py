"""Routes of bulk actions: plan, request, follow and cancel an action on many queries.

A request returns as soon as the bulk action is stored; the server carries it on by itself.
"""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query
from sqlalchemy.engine import Connection

from alerts.matching.labels import matches
from controlplane.api.alerting import matchers_of
from controlplane.api.deps import CallerDep, ControlPlaneDep, body_of, body_schema
from controlplane.api.supervision.bulk_bodies import (
    BulkBody,
    BulkListBody,
    BulkPlanBody,
    BulkPlanRequest,
    BulkRequest,
    CancelRequest,
    OneBulkBody,
    PlannedQueryBody,
    bulk_body,
    planned,
)
from controlplane.app import ControlPlane
from controlplane.bulk_model import MAX_QUERIES, BulkAction
from controlplane.errors import BadRequest, Conflict, NotFound
from controlplane.metrics.samples import query_labels
from controlplane.model import QueryStatus, QueryView
from controlplane.query_names import whole_id
from controlplane.runtime.tokens import Token
from controlplane.store.supervision import bulk_actions as rows
from controlplane.supervision import bulk_steps

router = APIRouter(prefix="/api/v1/bulk-actions", tags=["actions"])
PlanRequestDep = Annotated[BulkPlanRequest, Depends(body_of(BulkPlanRequest))]
BulkRequestDep = Annotated[BulkRequest, Depends(body_of(BulkRequest))]
CancelRequestDep = Annotated[CancelRequest, Depends(body_of(CancelRequest))]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
BulkId = Annotated[uuid.UUID, Path(description="the bulk action's id")]
#: Ids of bulk actions are made of the caller's Idempotency-Key in this namespace.
KEYS = uuid.UUID("5ad0c5d6-6c5c-4b4e-8e62-0d1f6f0b7b52")


@router.post("/plan", summary="What a bulk action would act on", openapi_extra=body_schema(BulkPlanRequest))
def post_plan(plane: ControlPlaneDep, body: PlanRequestDep) -> BulkPlanBody:
    """Each query with the reason why the action would be refused now. The driver may still refuse it later."""
    return _plan(plane, body)


@router.post(
    "",
    status_code=202,
    summary="Stop, start or restart many queries",
    openapi_extra=body_schema(BulkRequest),
    responses={409: {"description": "the action would be refused for a query; `detail.plan` names it"}},
)
def post_bulk_action(
    plane: ControlPlaneDep, caller: CallerDep, body: BulkRequestDep, idempotency_key: Key = None
) -> OneBulkBody:
    """The same Idempotency-Key gives the bulk action of the first request."""
    bulk_id = (
        uuid.uuid4() if idempotency_key is None else uuid.uuid5(KEYS, f"{caller.name} {idempotency_key}")
    )
    with plane.reading() as conn:
        known = rows.get(conn, str(bulk_id))
    if known is None:
        known = _new(plane, caller, body, str(bulk_id))
        plane.supervision.bulk.add(known)
    return _one(plane, known)


def _new(plane: ControlPlane, caller: Token, body: BulkRequest, bulk_id: str) -> BulkAction:
    plan = _plan(plane, body)
    refused = [query for query in plan.queries if query.refusal is not None]
    if refused and not body.skip_refused:
        raise Conflict(_refusal(refused), code="bulk_refused", detail={"plan": plan.model_dump(mode="json")})
    accepted = tuple(query.query_id for query in plan.queries if query.refusal is None)
    if not accepted:
        raise Conflict(
            "the action would be refused for every query",
            code="bulk_refused",
            detail={"plan": plan.model_dump(mode="json")},
        )
    return BulkAction(
        id=bulk_id,
        action=body.action,
        query_ids=accepted,
        actor=caller.actor(body.actor),
        via=caller.name,
        reason=body.reason,
        requested_at=plane.clock(),
        drain=body.drain,
        max_parallel=body.max_parallel,
        halt_on_failure=body.halt_on_failure,
    )


def _refusal(refused: list[PlannedQueryBody]) -> str:
    first = refused[0]
    others = f" and for {len(refused) - 1} others" if len(refused) > 1 else ""
    name = f"{first.app}/{first.name or first.query_id[:8]}"
    return f"the action would be refused for {name} ({first.refusal}){others}; set skip_refused to leave them out"


def _plan(plane: ControlPlane, body: BulkPlanRequest) -> BulkPlanBody:
    now = plane.clock()
    found = [(view, plane.verdicts.verdict_of(view, now).verdict.status) for view in _selected(plane, body)]
    wanted = _statuses(body.statuses)
    queries = [
        planned(view, status, bulk_steps.refusal(view, body.action, now, status))
        for view, status in found
        if not wanted or status in wanted
    ]
    if not queries:
        raise BadRequest("no query matches", code="no_query")
    if len(queries) > MAX_QUERIES:
        raise BadRequest(
            f"{len(queries)} queries match; a bulk action takes at most {MAX_QUERIES}",
            code="too_many_queries",
        )
    accepted = sum(query.refusal is None for query in queries)
    return BulkPlanBody(action=body.action, accepted=accepted, queries=queries)


def _selected(plane: ControlPlane, body: BulkPlanRequest) -> list[QueryView]:
    """The queries asked for, by application and name."""
    if bool(body.query_ids) == bool(body.selector):
        raise BadRequest("give query_ids or selector")
    if body.query_ids:
        views = [_known(plane, text) for text in dict.fromkeys(body.query_ids)]
    else:
        wanted = matchers_of("selector", body.selector)
        if not wanted:
            raise BadRequest("selector: give at least one matcher")
        views = [
            view for view in plane.fleet() if view.retired_at is None and matches(wanted, query_labels(view))
        ]
    return sorted(views, key=lambda view: (view.app, view.name or "", view.query_id))


def _known(plane: ControlPlane, text: str) -> QueryView:
    query_id = whole_id(text)
    view = plane.window.view(query_id) if query_id else None
    if view is None:
        raise BadRequest(f"query_ids: there is no query {text[:60]}", code="no_query")
    return view


def _statuses(names: list[str]) -> frozenset[QueryStatus]:
    try:
        return frozenset(map(QueryStatus, names))
    except ValueError:
        known = ", ".join(status.value for status in QueryStatus)
        raise BadRequest(f"statuses: a status is one of {known}") from None


@router.get("", summary="Bulk actions, newest first")
def list_bulk_actions(
    plane: ControlPlaneDep, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> BulkListBody:
    with plane.reading() as conn:
        return BulkListBody(bulk_actions=[_body(plane, conn, bulk) for bulk in rows.newest(conn, limit)])


@router.get("/{bulk_id}", summary="A bulk action with the state of each query")
def get_bulk_action(plane: ControlPlaneDep, bulk_id: BulkId) -> OneBulkBody:
    with plane.reading() as conn:
        bulk = rows.get(conn, str(bulk_id))
    if bulk is None:
        raise NotFound(f"there is no bulk action {bulk_id}")
    return _one(plane, bulk)


@router.post("/{bulk_id}/cancel", summary="Act on no further query", openapi_extra=body_schema(CancelRequest))
def post_cancel(
    plane: ControlPlaneDep, caller: CallerDep, bulk_id: BulkId, body: CancelRequestDep
) -> OneBulkBody:
    """Actions that were requested already go on. No change to a bulk action that has ended."""
    return _one(plane, plane.supervision.bulk.cancel(str(bulk_id), caller.actor(body.actor), caller.name))


def _one(plane: ControlPlane, bulk: BulkAction) -> OneBulkBody:
    with plane.reading() as conn:
        return OneBulkBody(bulk_action=_body(plane, conn, bulk))


def _body(plane: ControlPlane, conn: Connection, bulk: BulkAction) -> BulkBody:
    actions = rows.actions_of(conn, bulk)
    skipped = plane.supervision.bulk.skipped(bulk, actions)
    return bulk_body(bulk, actions, skipped, {id: plane.window.view(id) for id in bulk.query_ids})
