"""Routes of rules: the loaded rules with their state, the replay of rules on stored history, runbooks."""

from __future__ import annotations

import threading
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from alerts.replay import replay
from alerts.rules import loader, pack
from alerts.state import TemplateContext
from controlplane.api import alerting
from controlplane.api.alerting_bodies import ReplayBody, ReplayRequest, RulesBody, RunbookBody
from controlplane.api.deps import ControlPlaneDep, body_of, body_schema
from controlplane.errors import BadRequest, Conflict, NotFound
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1/rules", tags=["rules"])
runbooks = APIRouter(prefix="/api/v1/runbooks", tags=["rules"])
#: Time limit of a replay, which competes with the server for the CPU.
REPLAY_SECONDS = 120.0
INTERVAL = 15.0  # of groups without an interval
#: Labels by which the stored events of a query are found.
NARROW_BY = ("app", "query", "query_id")
ReplayRequestDep = Annotated[ReplayRequest, Depends(body_of(ReplayRequest))]


@router.get("", summary="Rule groups with their state")
def list_rules(plane: ControlPlaneDep) -> RulesBody:
    groups = [alerting.group_body(view) for view in plane.alerts.rules()]
    return RulesBody(as_of=rfc3339(plane.clock()), groups=groups)


@router.post(
    "/replay",
    summary="Replay rules on stored history",
    openapi_extra=body_schema(ReplayRequest),
    responses={409: {"description": "another replay runs"}},
)
def post_replay(plane: ControlPlaneDep, request: Request, body: ReplayRequestDep) -> ReplayBody:
    """Evaluate a rule file on the stored history, for at most two minutes; `notes` name what was left out."""
    groups = alerting.rules_or_mistakes(*loader.load(body.rules))
    end = alerting.seconds("end", body.end)
    end = plane.clock() if end is None else min(end, plane.clock())
    start = alerting.seconds("start", body.start) or 0.0
    if start >= end:
        raise BadRequest("start must be before end, and before now")
    playing: threading.Lock = request.app.state.replaying
    if not playing.acquire(blocking=False):
        raise Conflict("another replay is running; try again when it is done", code="busy")
    try:
        until = time.monotonic() + REPLAY_SECONDS
        around = TemplateContext(external_url=plane.settings.dashboard_url)
        source = plane.series.source(plane.clock())
        found = replay(
            groups,
            source,
            start,
            end,
            INTERVAL,
            around,
            should_continue=lambda: time.monotonic() < until,
            narrow_by=NARROW_BY,
            chunk=chunk_for(len(plane.window.views())),
        )
    finally:
        playing.release()
    return alerting.replay_body(found, start, end)


@runbooks.get("/{name}", summary="The runbook of a built-in alert")
def get_runbook(name: Annotated[str, Path(max_length=64)]) -> RunbookBody:
    page = pack.runbook(name)
    if page is None:
        raise NotFound(f"there is no runbook named {name}")
    return RunbookBody(name=name, text=page)


def chunk_for(queries: int) -> int:
    """Number of slots evaluated at once, so that their series stay below some ten megabytes."""
    return max(60, min(960, 48_000 // max(1, queries)))
