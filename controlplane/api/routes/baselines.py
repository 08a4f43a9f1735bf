"""Routes of baselines per query and hour of the week, published by `controlplane history rollup`.

A set is sent in chunks and replaces the previous set when its last chunk has arrived.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from controlplane.api import intake
from controlplane.api.deps import ControlPlaneDep, EncodedBody
from controlplane.app import ControlPlane
from controlplane.errors import BadRequest, NotFound
from controlplane.metrics.baselines import Baseline, from_json, from_stored, to_json, to_stored
from controlplane.store import baselines as rows
from controlplane.store.tables import storable
from listeners.protocol import wire
from listeners.protocol.errors import WireError

router = APIRouter(prefix="/api/v1", tags=["baselines"])
MAX_CHUNKS = 1_000
MAX_NAME_CHARS = 100


async def _body(request: Request, plane: ControlPlaneDep) -> AsyncIterator[EncodedBody]:
    with intake.Claim(request.app.state.budget) as claim:
        raw = await intake.read_body(request, plane.settings.max_body_bytes, claim)
        yield EncodedBody(raw, request.headers.get("content-encoding", ""), claim)


@router.put("/baselines", summary="Upload a chunk of a new set of baselines")
def put_baselines(plane: ControlPlaneDep, body: Annotated[EncodedBody, Depends(_body)]) -> dict[str, Any]:
    """`{"set": NAME, "chunk": 0, "chunks": N, "baselines": [{"query_id", "app", "query", "made_at", "figures": {NAME:
    {"0.5": [168 values]}}}]}`, plain or gzip. The response shows whether the set is complete and therefore current.
    """
    text = intake.decode(body.raw, body.encoding, plane.settings.max_decompressed_bytes, body.claim)
    try:
        document = wire.loads(text)
    except WireError as error:
        raise BadRequest(f"the body: {error}", code="bad_json") from None
    name, chunk, chunks, found = _parsed(document)
    complete = plane.writer.write(
        lambda conn: rows.put_chunk(conn, name, chunk, chunks, map(to_stored, found)),
        lambda done: _taken(plane, done),
    )
    return {"set": name, "chunk": chunk, "chunks": chunks, "complete": complete, "queries": len(found)}


def _taken(plane: ControlPlane, complete: bool) -> None:
    if complete:
        with plane.reading() as conn:
            plane.baselines.replace(map(from_stored, rows.current(conn)))


def _parsed(document: Any) -> tuple[str, int, int, list[Baseline]]:
    if not isinstance(document, dict):
        raise BadRequest("the body must be an object with set, chunk, chunks and baselines")
    name = document.get("set")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise BadRequest(f"set must be a text of 1 to {MAX_NAME_CHARS} characters, the same for all chunks")
    chunks = _whole(document, "chunks", 1, MAX_CHUNKS)
    chunk = _whole(document, "chunk", 0, chunks - 1)
    given = document.get("baselines")
    if not isinstance(given, list):
        raise BadRequest("baselines must be a list of objects, one per query")
    found = [from_json(item, f"baselines[{place}]") for place, item in enumerate(given)]
    if len({item.query_id for item in found}) < len(found):
        raise BadRequest("baselines: a query_id occurs twice")
    return storable(name), chunk, chunks, found


def _whole(document: dict[str, Any], name: str, least: int, most: int) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}")
    return value


@router.get("/baselines", summary="The baseline of a query, or the queries that have one")
def get_baselines(
    plane: ControlPlaneDep,
    query_id: Annotated[str | None, Query(max_length=100, description="Spark's id of the query")] = None,
) -> dict[str, Any]:
    """With `query_id` all values by figure, quantile and hour of the week; NotFound without a baseline."""
    if query_id is None:
        known = plane.baselines.all()
        return {"baselines": [{k: v for k, v in to_json(item).items() if k != "figures"} for item in known]}
    view = plane.window.view(query_id)
    baseline = plane.baselines.by_id(query_id) or (plane.baselines.of(view) if view else None)
    if baseline is None:
        raise NotFound(f"there is no baseline of {query_id}")
    return to_json(baseline)
