"""Routes of queries: the fleet, a query with its status and reason, and its history.

The present comes from the window and is rendered once per verdict; the past comes from the store and the lake.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import StringConstraints
from sqlalchemy.engine import Connection

from alerts.errors import AlertsError
from alerts.matching.labels import Matcher, parse_matchers
from controlplane.api import render
from controlplane.api.bodies import (
    ChangeBody,
    EventBody,
    EventsBody,
    FactsBody,
    FailureBody,
    FleetBody,
    ProgressListBody,
    QueryDetailBody,
    RunsBody,
    SourceBody,
)
from controlplane.api.deps import ControlPlaneDep, FleetCacheDep, QueryIdDep, stretch
from controlplane.api.fleet import answer
from controlplane.api.fleet.answer import FleetRequest
from controlplane.api.history_bodies import BatchBody, TimelineBody
from controlplane.app import ControlPlane
from controlplane.errors import BadRequest, NotFound
from controlplane.events.progress import items, number, whole
from controlplane.health.checkpoint_drivers import names_going_on
from controlplane.health.context import context_at
from controlplane.health.driver_status import START_APPLICATION
from controlplane.health.host import overload_near
from controlplane.health.notes import notes
from controlplane.health.offset_units import row_sources
from controlplane.health.rates import source_rates
from controlplane.health.thresholds import DEFAULTS
from controlplane.history.model import ProgressRequest
from controlplane.model import ProgressSample, QueryStatus, QueryView
from controlplane.store import actions as action_rows
from controlplane.store import events as event_rows
from controlplane.store import queries as query_rows
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1/queries", tags=["queries"])
SEARCH = "Words; each must be part of the query's name, app, id, sentence, alerts or a label's value"
SORT = (
    "A field, descending with a leading `-`; unknown values are last. `alert_severity`: what needs attention first, "
    "the newest before older. Without it the worst status is first"
)
CHOICES = "Add `choices`: the applications and labels to filter by"
SINCE = "The `cursor` of an earlier answer to the same request: only the rows that changed, and `removed` ids"
MAX_POINTS = 2000
DEFAULT_RANGE, TIMELINE_RANGE = 3600.0, 30 * 86400.0  # seconds
SHOWN = 20

Text = Annotated[str, StringConstraints(max_length=256)]
Labels = Annotated[
    list[str] | None,
    Query(max_length=20, description='Matchers such as team="data",env=~"prod|stage"; all must match'),
]
Moment = Annotated[str | None, Query(max_length=64, description="RFC 3339 or Unix seconds")]


@router.get("", summary="The fleet, worst first", response_model=FleetBody, response_class=Response)
def list_queries(
    request: Request,
    plane: ControlPlaneDep,
    cache: FleetCacheDep,
    app: Annotated[list[Text] | None, Query(max_length=100)] = None,
    status: Annotated[list[QueryStatus] | None, Query(max_length=len(QueryStatus))] = None,
    label: Labels = None,
    search: Annotated[str, Query(max_length=256, description=SEARCH)] = "",
    sort: Annotated[str, Query(max_length=64, description=SORT)] = "",
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    fields: Annotated[
        str, Query(max_length=2000, description="Fields, separated by commas; all by default")
    ] = "",
    since: Annotated[str | None, Query(max_length=64, description=SINCE)] = None,
    choices: Annotated[bool, Query(description=CHOICES)] = False,
) -> Response:
    """All queries except retired ones (see `status=retired`) and those replaced by a newer query of the same name.

    `app` and `status` may be repeated: any of them. `counts` leaves the filter by status out.

    The answer has an `ETag`: with it as `If-None-Match` an unchanged answer is 304 and has no body. With `fields` the
    rows have only these.
    """
    wanted = FleetRequest(
        apps=frozenset(app or ()),
        statuses=frozenset(status or ()),
        matchers=tuple(matcher for text in label or () for matcher in _matchers(text)),
        search=search,
        sort=sort,
        offset=offset,
        limit=limit,
        fields=tuple(name.strip() for name in fields.split(",") if name.strip()),
        since=since,
        choices=choices,
    )
    wanted.check()
    now = plane.clock()
    found = answer.answer(plane, cache, wanted, now)
    headers = {
        "ETag": found.etag,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Authorization",
    }
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body, encoding = answer.compressed(found.body(now), request.headers.get("accept-encoding", ""))
    return Response(body, media_type="application/json", headers=headers | encoding)


def _matchers(text: str) -> tuple[Matcher, ...]:
    try:
        return parse_matchers(text)
    except AlertsError as error:
        raise BadRequest(f"label: {error}") from None


def view_of(plane: ControlPlane, query_id: str) -> QueryView:
    """The view of a query; NotFound for an unknown query."""
    view = plane.window.view(query_id)
    if view is None:
        raise NotFound(f"there is no query {query_id}")
    return view


@router.get("/{query_id}", summary="A query with its runs, sources, status changes and actions")
def get_query(plane: ControlPlaneDep, cache: FleetCacheDep, query_id: QueryIdDep) -> QueryDetailBody:
    view = view_of(plane, query_id)
    with plane.reading() as conn:
        history = _history(conn, query_id)
        progress = query_rows.latest_progress(conn, query_id)
    return QueryDetailBody(
        **dict(cache.row(view, plane.clock())),
        **history,
        sources=_sources(progress, view.progress),
        sink=render.sink_of(progress),
        operators=render.operators_of(progress),
        facts=FactsBody(**asdict(view.facts)),
        notes=notes(context_at(view, plane.clock(), DEFAULTS)),
        agent_info=render.agent_body(view.agent, view.host) if view.agent else None,
        failure=_failure(view, plane.clock()),
        latest_progress=progress,
        superseded_by=plane.window.superseded(query_id),
    )


def _sources(progress: Mapping[str, Any] | None, samples: Sequence[ProgressSample]) -> list[SourceBody]:
    """The sources as Spark wrote them, each with its lag from the newest of the samples."""
    documents = items((progress or {}).get("sources"))
    sources, counting = samples[-1].sources if samples else (), row_sources(samples)
    known = [*((s.lag_offsets, s.name in counting) for s in sources), *repeat((None, False), len(documents))]
    return [_source(samples, document, *lag) for document, lag in zip(documents, known, strict=False)]


def _source(
    samples: Sequence[ProgressSample],
    document: Mapping[str, Any],
    lag_offsets: float | None,
    counts_rows: bool,
) -> SourceBody:
    metrics, rows = document.get("metrics"), whole(document.get("numInputRows"))
    reported = (number(document.get(f"{name}RowsPerSecond")) for name in ("input", "processed"))
    return SourceBody(
        description=str(document.get("description") or ""),
        start_offset=document.get("startOffset"),
        end_offset=document.get("endOffset"),
        latest_offset=document.get("latestOffset"),
        lag_rows=render.finite(lag_offsets) if counts_rows else None,
        lag_offsets=render.finite(lag_offsets),
        input_rows=rows,
        **source_rates(samples, rows, *reported),
        metrics=metrics if isinstance(metrics, dict) else {},
    )


def _history(conn: Connection, query_id: str) -> dict[str, Any]:
    return {
        "gaps": render.gap_bodies(query_id, query_rows.reported(conn, query_id).gaps[-SHOWN:]),
        "runs": [render.run_body(run) for run in query_rows.list_runs(conn, query_id, SHOWN)],
        "changes": [
            ChangeBody(at=rfc3339(change["at"]), status=change["status"], reason=change["reason"])
            for change in query_rows.status_changes(conn, query_id, SHOWN)
        ],
        "actions": [render.action_body(action) for action in action_rows.list_actions(conn, query_id, SHOWN)],
    }


def _failure(view: QueryView, now: float) -> FailureBody | None:
    """The failure of the newest run, or of a later start; of a driver's failure the advice is the driver's.

    Where another driver goes on with the query the advice names it: to look for it and stop it would be wrong.
    """
    run = view.run
    if view.start_failed_at is not None and (run is None or view.start_failed_at >= run.started_at):
        overload = overload_near(view.overload, view.start_failed_at)
        return render.failure_body(view.start_failure, overload=overload)
    failure = render.run_failure_body(run, view.change, view.overload) if run else None
    if failure is None:
        return None
    if names := names_going_on(view, now):
        advice = f"Another driver goes on with the query: {names}. Do not start it here while that one runs."
        return failure.model_copy(update={"retry": "never", "advice": advice})
    if view.ended_by != "app_ended":
        return failure
    return failure.model_copy(update={"retry": "never", "advice": START_APPLICATION})


@router.get("/{query_id}/progress", summary="Progress, at most 2 000 points, from the store and the lake")
def get_progress(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    start: Moment = None,
    end: Moment = None,
    step: Annotated[float | None, Query(gt=0, le=86400 * 31, allow_inf_nan=False)] = None,
) -> ProgressListBody:
    """By default the last hour. With `step` the last report of every so many seconds.

    Reports that the store no longer has come from the lake, if there is one. Long ranges are returned as medians per
    minute, hour or `step` (see `resolution`). Queries that only the lake knows are included.
    """
    since, until = stretch(start, end, plane.clock(), DEFAULT_RANGE)
    found = plane.history.progress(ProgressRequest(query_id, since, until, MAX_POINTS, step))
    if not found.points:
        view_of(plane, query_id)
    points = render.progress_bodies(found.points)
    return ProgressListBody(progress=points, resolution=found.resolution, notes=list(found.notes))


@router.get("/{query_id}/runs/{run_id}/batches/{batch_id}", summary="A batch's report as Spark wrote it")
def get_batch(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    run_id: Annotated[uuid.UUID, Path(description="the run's id")],
    batch_id: Annotated[int, Path(ge=0, lt=2**63)],
) -> BatchBody:
    """404 where the store does not have the report, or no longer."""
    with plane.reading() as conn:
        report = query_rows.report_of(conn, query_id, str(run_id), batch_id)
    if report is None:
        raise NotFound(f"the store has no report of batch {batch_id} of this run")
    return BatchBody(report=report)


@router.get("/{query_id}/timeline", summary="Runs, alerts and actions from the lake")
def get_timeline(
    plane: ControlPlaneDep, query_id: QueryIdDep, start: Moment = None, end: Moment = None
) -> TimelineBody:
    """By default of the last 30 days; empty without a lake.

    The store may still have the same objects: a run is identified by `run_id`, an alert by `fingerprint` and
    `fired_at`, an action by `id`.
    """
    since, until = stretch(start, end, plane.clock(), TIMELINE_RANGE)
    return render.timeline_body(plane.history.timeline(query_id, since, until))


@router.get("/{query_id}/runs", summary="Runs, newest first")
def get_runs(
    plane: ControlPlaneDep, query_id: QueryIdDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> RunsBody:
    view_of(plane, query_id)
    with plane.reading() as conn:
        return RunsBody(runs=[render.run_body(run) for run in query_rows.list_runs(conn, query_id, limit)])


@router.get("/{query_id}/events", summary="Events as they were sent, oldest first, in pages")
def get_events(
    plane: ControlPlaneDep,
    query_id: QueryIdDep,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    type: Annotated[str | None, Query(max_length=64)] = None,
) -> EventsBody:
    view_of(plane, query_id)
    with plane.reading() as conn:
        events, following = event_rows.read_events(conn, query_id, after, limit, type)
    return EventsBody(
        events=[EventBody(**{**event, "at": rfc3339(event["at"])}) for event in events], next=following
    )
