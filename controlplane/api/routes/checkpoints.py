"""Checkpoints: what the doctor says of each, inventories on demand; and shapes: will a changed query restart?

Judging what somebody posts happens one at a time on the request's thread; everything else was judged before.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from controlplane.api import checkpoints as bodies
from controlplane.api import intake
from controlplane.api.checkpoints import (
    CheckpointBody,
    CheckpointDetailBody,
    CheckpointsBody,
    InventoryRequestBody,
    PreflightBody,
    PreflightRequest,
    RequestedBody,
    RunShapeBody,
)
from controlplane.api.deps import CallerDep, ControlPlaneDep, QueryIdDep, body_of, body_schema
from controlplane.api.render import stamp
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory.model import NotAnInventory
from controlplane.checkpoints.inventory_events import bounded_inventory
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.survey import SURVEY, Survey
from controlplane.errors import BadRequest, Forbidden, NotFound, StoreUnavailable
from controlplane.ingest.service import deeper_than
from controlplane.model import QueryView
from controlplane.store import checkpoints as rows
from controlplane.store import shapes as shape_rows
from controlplane.store.shapes import ShapeOwner
from listeners.protocol import wire
from listeners.protocol.errors import WireError

router = APIRouter(prefix="/api/v1", tags=["checkpoints"])
MAX_DOCUMENT_BYTES = 8 << 20
MAX_DEPTH = 20
ANALYZE_WAIT_SECONDS = 20.0
_ANALYZING = threading.Lock()
LookRequestDep = Annotated[InventoryRequestBody, Depends(body_of(InventoryRequestBody))]
PreflightDep = Annotated[PreflightRequest, Depends(body_of(PreflightRequest))]


def _body(plane: ControlPlane, view: QueryView) -> CheckpointBody:
    room = plane.checkpoints
    collecting = room.pending_request(view.query_id) is not None
    return bodies.checkpoint_body(view, collecting, room.trouble(view.query_id))


@router.get("/checkpoints", summary="All checkpoints, worst first")
def list_checkpoints(plane: ControlPlaneDep) -> CheckpointsBody:
    """Of every query but those put away and those that a newer one of the same name has replaced."""
    views = [view for view in plane.fleet() if view.retired_at is None]
    found = bodies.worst_first([_body(plane, view) for view in views])
    return CheckpointsBody(as_of=stamp(plane.clock()) or "", checkpoints=found)


@router.get("/checkpoints/{query_id}", summary="One checkpoint: findings, state, growth, shape")
def get_checkpoint(plane: ControlPlaneDep, query_id: QueryIdDep) -> CheckpointDetailBody:
    view = view_of(plane, query_id)
    with plane.reading() as conn:
        judgement, headers = rows.latest_report(conn, query_id), rows.inventory_summaries(conn, query_id)
        shape = shape_rows.newest(conn, query_id)
    return bodies.detail_body(_body(plane, view), judgement, headers, shape)


@router.get("/checkpoints/{query_id}/inventory", summary="The newest inventory, as it was taken")
def get_inventory(plane: ControlPlaneDep, query_id: QueryIdDep) -> dict[str, Any]:
    view_of(plane, query_id)
    with plane.reading() as conn:
        document = rows.document(conn, query_id)
    if document is None:
        raise NotFound(f"there is no inventory of {query_id}'s checkpoint")
    return dict(document["checkpoint"])


@router.post(
    "/checkpoints/{query_id}/inventory",
    status_code=202,
    summary="Ask for an inventory",
    openapi_extra=body_schema(InventoryRequestBody),
    responses={409: {"description": "nobody can look, and why"}},
)
def post_inventory(plane: ControlPlaneDep, query_id: QueryIdDep, body: LookRequestDep) -> RequestedBody:
    """Of the query's agent; where that is gone, of this server, below its checkpoint roots only."""
    return RequestedBody(requested=True, by=plane.checkpoints.request(view_of(plane, query_id)))


@dataclass(frozen=True)
class Document:
    """A document to judge, as it came; `claim` is its share of the memory for bodies."""

    raw: bytes
    encoding: str
    claim: intake.Claim


async def _document(request: Request) -> AsyncIterator[Document]:
    with intake.Claim(request.app.state.budget) as claim:
        raw = await intake.read_body(request, MAX_DOCUMENT_BYTES, claim)
        yield Document(raw, request.headers.get("content-encoding", ""), claim)


@router.post("/checkpoints/analyze", summary="Analyze an inventory or a survey")
def post_analyze(
    body: Annotated[Document, Depends(_document)],
    target: Annotated[
        str | None, Query(max_length=40, description="the Spark that will start, e.g. 4.3.0")
    ] = None,
) -> dict[str, Any]:
    """What `controlplane doctor --json` says of the same document. Nothing is kept."""
    version = _target(target)
    if not _ANALYZING.acquire(timeout=ANALYZE_WAIT_SECONDS):
        raise StoreUnavailable("the server judges other inventories; send it again", code="overloaded")
    try:
        survey = _survey(intake.decode(body.raw, body.encoding, MAX_DOCUMENT_BYTES, body.claim))
        return analyze(survey.checkpoint, version, output=survey.output, inputs=survey.inputs).as_json()
    finally:
        _ANALYZING.release()


def _target(text: str | None) -> SparkVersion | None:
    try:
        return parse_version(text) if text else None
    except ValueError as error:
        raise BadRequest(f"target: {error}") from None


def _survey(raw: bytes) -> Survey:
    try:
        document = wire.loads(raw)
        if deeper_than(document, MAX_DEPTH):
            raise BadRequest(f"the body is nested more than {MAX_DEPTH} deep", code="bad_json")
        if not isinstance(document, dict) or document.get("format") != SURVEY:
            return Survey(bounded_inventory(document))
        output, inputs = document.get("output"), document.get("inputs")
        listed = inputs if isinstance(inputs, list) else []
        return Survey(
            bounded_inventory(document.get("checkpoint")),
            None if output is None else bounded_inventory(output),
            tuple(bounded_inventory(one) for one in listed[:20]),
        )
    except WireError as error:
        raise BadRequest(f"the body: {error}", code="bad_json") from None
    except NotAnInventory as error:
        raise BadRequest(f"the body: {error}", code="not_an_inventory") from None


@router.get("/queries/{query_id}/shape", summary="The shape of a query's newest run, or of one run")
def get_shape(
    plane: ControlPlaneDep, query_id: QueryIdDep, run: Annotated[str | None, Query(max_length=64)] = None
) -> RunShapeBody:
    """What of it its checkpoint depends on, as its agent told; for `controlplane preflight`."""
    with plane.reading() as conn:
        row = shape_rows.newest(conn, query_id) if run is None else shape_rows.of_run(conn, run)
    if row is None or row["query_id"] != query_id:
        raise NotFound(f"no shape is known of {query_id}{f' in run {run}' if run else ''}")
    return RunShapeBody(run_id=row["run_id"], at=stamp(row["at"]) or "", shape=row["shape"])


@router.post(
    "/preflight",
    summary="Will this query restart from its checkpoint?",
    openapi_extra=body_schema(PreflightRequest),
)
def post_preflight(plane: ControlPlaneDep, caller: CallerDep, body: PreflightDep) -> PreflightBody:
    """Compares a shape that is to start with that of the last run on its checkpoint. Nothing is kept."""
    if caller.app not in (None, body.app):
        raise Forbidden(f"this token is bound to the app {caller.app} and may not ask for {body.app}")
    if deeper_than(body.shape, MAX_DEPTH):
        raise BadRequest(f"shape: nested more than {MAX_DEPTH} deep")
    whose = ShapeOwner("", body.query_id or "", body.app, body.name, body.checkpoint, plane.clock())
    return bodies.preflight_body(plane.checkpoints.preflight(whose, body.shape, bound=caller.app is not None))
