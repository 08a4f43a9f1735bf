"""Route of what changed about a query before its trouble began."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy.engine import Connection

from controlplane.api.bodies import Body, Stamp
from controlplane.api.deps import ControlPlaneDep, QueryIdDep, seconds
from controlplane.api.render import stamp
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.changes.what_changed import (
    EARLIER_SECONDS,
    INPUT_SECONDS,
    SEARCH_SECONDS,
    QueryChange,
    StartedRun,
    changes_before,
    input_change,
    trouble_began,
)
from controlplane.history.model import ProgressRequest
from controlplane.metrics.baselines import FIGURES, hour_of_week
from controlplane.model import ProgressSample, QueryView, Run
from controlplane.store import actions as action_rows
from controlplane.store import queries as query_rows
from controlplane.store import shapes as shape_rows
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1/queries", tags=["queries"])
MAX_RUNS, MAX_STATUSES, MAX_REPORTS = 50, 200, 1000
MAX_SEARCH_SECONDS = 366 * 86_400.0
BEFORE = "RFC 3339 or Unix seconds; default: when the present trouble of the query began"


class QueryChangeBody(Body):
    """A change. `kind`: `start`, `driver`, `spark`, `label`, `query` (its plan, sources, options, settings) or `input`."""

    at: str
    kind: str
    sentence: str


class WhatChangedBody(Body):
    """Changes in the `searched_seconds` before `before`, the last first. `before`: null where the query is not in trouble."""

    before: Stamp
    searched_seconds: float
    changes: list[QueryChangeBody]


@router.get("/{query_id}/what-changed", summary="What changed before the trouble of a query began")
def get_what_changed(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    before: Annotated[str | None, Query(max_length=64, description=BEFORE)] = None,
    searched_seconds: Annotated[float, Query(ge=60, le=MAX_SEARCH_SECONDS)] = SEARCH_SECONDS,
) -> WhatChangedBody:
    """Starts and who requested them, the driver, plan, options and settings, Spark's version, labels, and the input."""
    view, began = view_of(plane, query_id), seconds("before", before)
    with plane.reading() as conn:
        if began is None:
            began = trouble_began(query_rows.status_changes(conn, query_id, MAX_STATUSES))
        if began is None:
            return WhatChangedBody(before=None, searched_seconds=searched_seconds, changes=[])
        first = began - searched_seconds
        runs = [_started(plane, conn, run, first) for run in query_rows.list_runs(conn, query_id, MAX_RUNS)]
        found = changes_before(began, runs, action_rows.list_actions(conn, query_id), searched_seconds)
    more = _input(plane, view, began)
    return WhatChangedBody(
        before=stamp(began),
        searched_seconds=searched_seconds,
        changes=[_body(change) for change in ([more] if more is not None else []) + found],
    )


def _started(plane: ControlPlane, conn: Connection, run: Run, first: float) -> StartedRun:
    row = shape_rows.of_run(conn, run.run_id) if run.started_at >= first else None
    return StartedRun(run, plane.window.agent(run.agent), row["comparison"] if row is not None else None)


def _input(plane: ControlPlane, view: QueryView, began: float) -> QueryChange | None:
    wanted = ProgressRequest(view.query_id, began - INPUT_SECONDS - EARLIER_SECONDS, began, MAX_REPORTS)
    samples = [p for p in plane.history.progress(wanted).points if isinstance(p, ProgressSample)]
    return input_change(began, samples, _baseline(plane, view, began))


def _baseline(plane: ControlPlane, view: QueryView, at: float) -> tuple[float, float] | None:
    """The 10 % and 90 % quantile of the input in that hour of the week."""
    known = plane.baselines.of(view)
    if known is None:
        return None
    values = known.values[list(FIGURES).index("input_rows_per_second"), hour_of_week(at)]
    low, high = float(values[0]), float(values[-1])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _body(change: QueryChange) -> QueryChangeBody:
    return QueryChangeBody(at=rfc3339(change.at), kind=change.kind, sentence=change.sentence)
