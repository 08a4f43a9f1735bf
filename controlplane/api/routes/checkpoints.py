"""Routes of checkpoints, inventories on demand, query shapes and the preflight check.

A posted inventory is analyzed on the request's thread, one at a time; all other reports are read from the store.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
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
    RewindBody,
    RunShapeBody,
)
from controlplane.api.deps import CallerDep, ControlPlaneDep, QueryIdDep, body_of, body_schema
from controlplane.api.render import stamp
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory.collector import CannotOpen
from controlplane.checkpoints.inventory.model import NotAnInventory
from controlplane.checkpoints.inventory_events import bounded_inventory
from controlplane.checkpoints.known_history import MAX_REPORTS, input_rows
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.repair import preview
from controlplane.checkpoints.repair.errors import Impossible
from controlplane.checkpoints.survey import SURVEY, Survey
from controlplane.errors import BadRequest, Conflict, Forbidden, NotFound, StoreUnavailable
from controlplane.health.checkpoint_verdict import report_now
from controlplane.ingest.lines import deeper_than
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
    service = plane.checkpoints
    collecting = service.pending_request(view.query_id) is not None
    return bodies.checkpoint_body(view, collecting, service.trouble(view.query_id), plane.clock())


@router.get("/checkpoints", summary="All checkpoints, worst first")
def list_checkpoints(plane: ControlPlaneDep) -> CheckpointsBody:
    """Of all queries except retired ones and those replaced by a newer query of the same name."""
    views = [view for view in plane.fleet() if view.retired_at is None]
    found = bodies.worst_first([_body(plane, view) for view in views])
    return CheckpointsBody(as_of=stamp(plane.clock()) or "", checkpoints=found)


@router.get("/checkpoints/{query_id}", summary="A checkpoint: findings, state stores, growth, shape")
def get_checkpoint(plane: ControlPlaneDep, query_id: QueryIdDep) -> CheckpointDetailBody:
    view = view_of(plane, query_id)
    with plane.reading() as conn:
        report, summaries = rows.latest_report(conn, query_id), rows.inventory_summaries(conn, query_id)
        shape = shape_rows.newest(conn, query_id)
    return bodies.detail_body(_body(plane, view), report_now(report, view), summaries, shape)


@router.get("/checkpoints/{query_id}/inventory", summary="The newest inventory")
def get_inventory(plane: ControlPlaneDep, query_id: QueryIdDep) -> dict[str, Any]:
    view_of(plane, query_id)
    with plane.reading() as conn:
        document = rows.document(conn, query_id)
    if document is None:
        raise NotFound(f"there is no inventory of the checkpoint of {query_id}")
    return dict(document["checkpoint"])


@router.post(
    "/checkpoints/{query_id}/inventory",
    status_code=202,
    summary="Request an inventory",
    openapi_extra=body_schema(InventoryRequestBody),
    responses={409: {"description": "no inventory can be collected; the message gives the reason"}},
)
def post_inventory(plane: ControlPlaneDep, query_id: QueryIdDep, body: LookRequestDep) -> RequestedBody:
    """From the query's agent; if that is gone, from this server, below its checkpoint roots only."""
    return RequestedBody(requested=True, by=plane.checkpoints.request(view_of(plane, query_id)))


@router.get(
    "/checkpoints/{query_id}/rewind",
    summary="The batches that can run next, or the plan of a rewind to one",
    responses={
        409: {"description": "not possible, or this server cannot read it; the message gives the reason"}
    },
)
def get_rewind(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    resume_at: Annotated[int | None, Query(ge=0, le=2**53, description="the batch to run next")] = None,
) -> RewindBody:
    """As `controlplane rewind --list` and `--dry-run` find them now, below this server's checkpoint roots only.

    Nothing is changed; the `command` in the answer does it.
    """
    view = view_of(plane, query_id)
    place = view.facts.checkpoint or (view.checkpoint.checkpoint if view.checkpoint else None)
    if not place:
        raise Conflict("the place of its checkpoint is not known", code="cannot_look")
    sink = view.progress[-1].sink if view.progress else ""
    with plane.reading() as conn:
        reports = rows.progress_before(conn, query_id, plane.clock(), MAX_REPORTS)
    with _analyzing():
        try:
            found = preview.preview(place, sink, plane.settings.checkpoint_roots, plane.clock(), resume_at)
        except (Impossible, CannotOpen, OSError) as error:
            raise Conflict(str(error), code="cannot_rewind") from None
    return bodies.rewind_body(found, resume_at, input_rows(reports))


@contextmanager
def _analyzing() -> Iterator[None]:
    """One analysis at a time; StoreUnavailable if the others take too long."""
    if not _ANALYZING.acquire(timeout=ANALYZE_WAIT_SECONDS):
        raise StoreUnavailable(
            "the server is analyzing other inventories; send the request again", code="overloaded"
        )
    try:
        yield
    finally:
        _ANALYZING.release()


@dataclass(frozen=True)
class Document:
    """A posted document; `claim` is its share of the memory for bodies."""

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
        str | None, Query(max_length=40, description="the Spark version of the next start, e.g. 4.3.0")
    ] = None,
) -> dict[str, Any]:
    """The report of `controlplane doctor --json` for the document. Nothing is stored."""
    version = _target(target)
    with _analyzing():
        survey = _survey(intake.decode(body.raw, body.encoding, MAX_DOCUMENT_BYTES, body.claim))
        return analyze(survey.checkpoint, version, output=survey.output, inputs=survey.inputs).as_json()


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
            tuple(bounded_inventory(item) for item in listed[:20]),
        )
    except WireError as error:
        raise BadRequest(f"the body: {error}", code="bad_json") from None
    except NotAnInventory as error:
        raise BadRequest(f"the body: {error}", code="not_an_inventory") from None


@router.get("/queries/{query_id}/shape", summary="The shape of the newest run or of a given run")
def get_shape(
    plane: ControlPlaneDep, query_id: QueryIdDep, run: Annotated[str | None, Query(max_length=64)] = None
) -> RunShapeBody:
    """The shape as the agent reported it; input of `controlplane preflight`."""
    with plane.reading() as conn:
        row = shape_rows.newest(conn, query_id) if run is None else shape_rows.of_run(conn, run)
    if row is None or row["query_id"] != query_id:
        raise NotFound(f"there is no shape of {query_id}{f' in run {run}' if run else ''}")
    return RunShapeBody(run_id=row["run_id"], at=stamp(row["at"]) or "", shape=row["shape"])


@router.post(
    "/preflight",
    summary="Check whether a query would restart from its checkpoint",
    openapi_extra=body_schema(PreflightRequest),
)
def post_preflight(plane: ControlPlaneDep, caller: CallerDep, body: PreflightDep) -> PreflightBody:
    """Compare a shape with that of the newest run that committed a batch on the checkpoint. Nothing is stored."""
    if caller.app not in (None, body.app):
        raise Forbidden(
            f"the token is bound to the app {caller.app} and does not allow requests for {body.app}"
        )
    if deeper_than(body.shape, MAX_DEPTH):
        raise BadRequest(f"shape: nested more than {MAX_DEPTH} deep")
    owner = ShapeOwner("", body.query_id or "", body.app, body.name, body.checkpoint, plane.clock())
    return bodies.preflight_body(plane.checkpoints.preflight(owner, body.shape, bound=caller.app is not None))
