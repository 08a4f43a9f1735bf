"""Routes of checkpoints, inventories on demand, query shapes and the preflight check.

A posted inventory is analyzed on the request's thread, one at a time; all other reports are read from the store.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from controlplane.actions.transitions import CHECKPOINT_ACTIONS, NewAction
from controlplane.api import intake
from controlplane.api.bodies import OneActionBody
from controlplane.api.checkpoints import bodies, change_bodies
from controlplane.api.checkpoints.bodies import (
    CheckpointBody,
    CheckpointDetailBody,
    CheckpointsBody,
    InventoryRequestBody,
    PreflightBody,
    PreflightRequest,
    RequestedBody,
    RunShapeBody,
)
from controlplane.api.checkpoints.change_bodies import (
    ChangeRequest,
    RepairBody,
    RepairRequest,
    RewindBody,
    RewindRequest,
    UndoRequest,
)
from controlplane.api.deps import CallerDep, ControlPlaneDep, QueryIdDep, body_of, body_schema
from controlplane.api.render import action_body, stamp
from controlplane.api.routes.actions import Key
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory.collector import CannotOpen
from controlplane.checkpoints.inventory.model import NotAnInventory
from controlplane.checkpoints.inventory_events import bounded_inventory
from controlplane.checkpoints.known_history import MAX_REPORTS, input_rows
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.repair import preview
from controlplane.checkpoints.repair.change import WantedChange
from controlplane.checkpoints.repair.errors import RepairError
from controlplane.checkpoints.survey import SURVEY, Survey
from controlplane.errors import BadRequest, Conflict, Forbidden, NotFound, StoreUnavailable
from controlplane.health.checkpoint_verdict import report_now
from controlplane.ingest.lines import deeper_than
from controlplane.model import ActionState, QueryView
from controlplane.runtime.tokens import Token
from controlplane.store import actions as action_rows
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
RewindRequestDep = Annotated[RewindRequest, Depends(body_of(RewindRequest))]
RepairRequestDep = Annotated[RepairRequest, Depends(body_of(RepairRequest))]
UndoRequestDep = Annotated[UndoRequest, Depends(body_of(UndoRequest))]
NOT_POSSIBLE: dict[int | str, dict[str, Any]] = {
    409: {"description": "not possible, or this server cannot read it; the message gives the reason"}
}
CHANGED: dict[int | str, dict[str, Any]] = {
    200: {"description": "this Idempotency-Key was used before"},
    409: {"description": "refused: the query may run, or this server changes no checkpoints"},
}


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
    responses=NOT_POSSIBLE,
)
def get_rewind(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    resume_at: Annotated[int | None, Query(ge=0, le=2**53, description="the batch to run next")] = None,
) -> RewindBody:
    """As `controlplane rewind --list` and `--dry-run` find them now, below this server's checkpoint roots only."""
    view = view_of(plane, query_id)
    places = plane.checkpoints.changes.places(view)
    with plane.reading() as conn:
        reports = rows.progress_before(conn, query_id, plane.clock(), MAX_REPORTS)
    with _previewing("cannot_rewind"):
        found = preview.preview_rewind(places, plane.clock(), resume_at)
    return change_bodies.rewind_body(
        found, resume_at, input_rows(reports), plane.checkpoints.changes.refusal(view)
    )


@router.get(
    "/checkpoints/{query_id}/repair",
    summary="The repairs of a checkpoint, and the plan of those that are selected",
    responses=NOT_POSSIBLE,
)
def get_repair(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    confirm: Annotated[list[str], Query(max_length=10, description="repairs that need a confirmation")] = [],  # noqa: B006
) -> RepairBody:
    """As `controlplane repair --dry-run` finds them now, below this server's checkpoint roots only."""
    view = view_of(plane, query_id)
    with _previewing("cannot_repair"):
        found = preview.preview_repair(
            plane.checkpoints.changes.places(view), plane.clock(), query_id, confirm
        )
    return change_bodies.repair_body(found, plane.checkpoints.changes.refusal(view))


@dataclass(frozen=True)
class Changer:
    """Requests changes of one query's checkpoint for a caller."""

    plane: ControlPlane
    query_id: str
    caller: Token
    response: Response
    key: str | None

    def request(self, change: WantedChange, body: ChangeRequest, parameters: dict[str, Any]) -> OneActionBody:
        """The stored action; Conflict where it is refused."""
        actor = self.caller.actor(body.actor)
        wanted = NewAction(
            change.kind,
            actor,
            self.caller.name,
            overrides=parameters,
            reason=body.reason,
            idempotency_key=self.key,
        )
        view = view_of(self.plane, self.query_id)
        action, fresh = self.plane.checkpoints.changes.request(view, wanted, change)
        if action.state is ActionState.REFUSED:
            raise Conflict(action.reason, code=str(action.evidence.get("code") or "refused"))
        self.response.status_code = 202 if fresh else 200
        return OneActionBody(action=action_body(action))


def _changer(
    plane: ControlPlaneDep,
    caller: CallerDep,
    query_id: QueryIdDep,
    response: Response,
    idempotency_key: Key = None,
) -> Changer:
    return Changer(plane, query_id, caller, response, idempotency_key)


ChangerDep = Annotated[Changer, Depends(_changer)]


@router.post(
    "/checkpoints/{query_id}/rewind",
    status_code=202,
    summary="Rewind a checkpoint",
    openapi_extra=body_schema(RewindRequest),
    responses=CHANGED,
)
def post_rewind(changer: ChangerDep, body: RewindRequestDep) -> OneActionBody:
    """An action that this server carries out: it makes `resume_at` the next batch, after a backup."""
    wanted = WantedChange("rewind", changer.query_id, resume_at=body.resume_at)
    return changer.request(wanted, body, {"resume_at": body.resume_at})


@router.post(
    "/checkpoints/{query_id}/repair",
    status_code=202,
    summary="Repair a checkpoint",
    openapi_extra=body_schema(RepairRequest),
    responses=CHANGED,
)
def post_repair(changer: ChangerDep, body: RepairRequestDep) -> OneActionBody:
    """An action that this server carries out: the plan of `GET …/repair` as it then is, after a backup."""
    wanted = WantedChange("repair", changer.query_id, confirmed=tuple(body.confirm))
    return changer.request(wanted, body, {"confirm": list(body.confirm)})


@router.post(
    "/checkpoints/{query_id}/undo",
    status_code=202,
    summary="Undo a rewind or repair of this server",
    openapi_extra=body_schema(UndoRequest),
    responses=CHANGED,
)
def post_undo(changer: ChangerDep, body: UndoRequestDep) -> OneActionBody:
    """An action that this server carries out: every byte as it was, where the query has not run since."""
    with changer.plane.reading() as conn:
        undone = action_rows.get(conn, body.action_id)
    if undone is None or undone.query_id != changer.query_id:
        raise NotFound(f"there is no action {body.action_id} on this query")
    backup = undone.evidence.get("backup")
    if not isinstance(backup, str) or undone.action not in CHECKPOINT_ACTIONS:
        raise Conflict("this action has no backup to restore", code="nothing_to_undo")
    wanted = WantedChange("undo", changer.query_id, backup=backup)
    return changer.request(wanted, body, {"action_id": undone.id})


@contextmanager
def _previewing(code: str) -> Iterator[None]:
    """One preview at a time; Conflict with the reason where it is not possible."""
    with _analyzing():
        try:
            yield
        except (RepairError, CannotOpen, OSError) as error:
            raise Conflict(str(error), code=code) from None


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
