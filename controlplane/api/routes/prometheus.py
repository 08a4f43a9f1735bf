"""Prometheus' HTTP API under `/prometheus`, for Grafana, promtool and other clients.

Bodies and errors have Prometheus' format; 401 and 403 have the API's own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from alerts.durations import DAY_SECONDS
from alerts.promql.annotations import Annotations
from alerts.promql.errors import LimitError, OperationError, ParseError, PromQLError
from alerts.promql.evaluator import LOOKBACK_SECONDS, evaluate, evaluate_range
from alerts.promql.limits import DEFAULT_LIMITS, Limits
from alerts.promql.series import SeriesSource, Value
from alerts.promql.syntax.nodes import Node
from alerts.promql.syntax.parser import parse
from controlplane.api import intake, prometheus, prometheus_form, prometheus_series
from controlplane.api.deps import ControlPlaneDep
from controlplane.api.error_formats import PROMETHEUS_ERROR, error_responses, route_class
from controlplane.api.limiter import EvaluationLimiter, LimiterTimeout
from controlplane.api.prometheus import PrometheusError
from controlplane.api.prometheus_form import Form, QueryRange
from controlplane.app import ControlPlane

ERRORS = error_responses(PROMETHEUS_ERROR, 400, 404, 413, 422, 429, 503)
MAX_EVALUATIONS = 4  # concurrent
QUEUE_SECONDS = 5.0  # for an evaluation slot
WATCH_SECONDS = 0.5  # between two looks at the client's connection
#: A client's now is a little before the server's when the request is read.
UNDERWAY = 5.0
FORM = "application/x-www-form-urlencoded"


router = APIRouter(
    prefix="/prometheus/api/v1",
    tags=["prometheus"],
    route_class=route_class(prometheus.failure),
    responses=ERRORS,
)


# -- dependencies ----------------------------------------------------------------------------------


async def _form(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await intake.read_body(request, intake.JSON_BYTES) if request.method == "POST" else b""
    return prometheus_form.read(request.url.query, body if kind == FORM else b"")


FormDep = Annotated[Form, Depends(_form)]


async def _limited(request: Request, _: FormDep) -> AsyncIterator[None]:
    """Hold an evaluation slot from the reading of the form until before the response is sent."""
    limiter: EvaluationLimiter = request.app.state.limiter
    request.state.abandoned = threading.Event()
    try:
        async with limiter.acquire(), _noticing(request):
            yield
    except LimiterTimeout:
        problem = (
            f"query timed out in query queue: {MAX_EVALUATIONS} other evaluations are running; try again"
        )
        raise PrometheusError("timeout", problem) from None


@asynccontextmanager
async def _noticing(request: Request) -> AsyncIterator[None]:
    """Set `abandoned` when the client closes the connection, so that the evaluation ends and its slot is free."""
    watching = asyncio.create_task(_watch(request))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(WATCH_SECONDS)
    request.state.abandoned.set()


LIMITED = [Depends(_limited, scope="function")]


def described(*names: str) -> dict[str, Any]:
    """`openapi_extra` that describes the parameters, which `prometheus_form` reads."""
    text = {"schema": {"type": "string"}}
    return {"parameters": [{"name": name, "in": "query", **text} for name in names]}


def _answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _now(plane: ControlPlane) -> float:
    """Now in whole milliseconds, like sample times: a live sample must not be later than the query."""
    return int(plane.clock() * 1000) / 1000


def _live_at(plane: ControlPlane, asked: float) -> float:
    """The time of live values in a response: now, or the requested time if that is about now."""
    now = _now(plane)
    return asked if now - UNDERWAY <= asked <= now else now


@contextmanager
def _prometheus_errors(limits: Limits = DEFAULT_LIMITS) -> Iterator[None]:
    """Turn errors of the engine into errors of Prometheus' API."""
    began = time.monotonic()
    try:
        yield
    except ParseError as error:
        raise prometheus_form.unreadable(error) from None
    except (PromQLError, OperationError) as error:
        if isinstance(error, LimitError) and time.monotonic() - began >= limits.seconds:
            raise PrometheusError("timeout", "query timed out in expression evaluation") from None
        raise PrometheusError("execution", str(error)) from None


# -- queries ---------------------------------------------------------------------------------------

QUERY = ("query", "time", "timeout", "limit", "lookback_delta")
QUERY_RANGE = ("query", "start", "end", "step", "timeout", "limit", "lookback_delta")
Evaluate = Callable[[Node, SeriesSource, float, Limits, Annotations], Value]


def _evaluated(
    plane: ControlPlane,
    request: Request,
    form: Form,
    at: float,
    evaluation: Evaluate,
    times: QueryRange | None = None,
) -> Response:
    """`at`: the time of the query or the end of its range; `times`: of a range query."""
    limit, lookback = form.limit(), form.duration("lookback_delta", 0.0)
    asked = form.duration("timeout", DEFAULT_LIMITS.seconds)
    seconds = asked if asked < DEFAULT_LIMITS.seconds else DEFAULT_LIMITS.seconds  # NaN is no limit
    abandoned: threading.Event = request.state.abandoned
    limits = Limits(seconds=seconds, points=prometheus_form.MAX_POINTS + 1, abandoned=abandoned.is_set)
    notes: list[str] = []
    annotations = Annotations()
    source = plane.series.source(_live_at(plane, at), notes)
    span = (times.step, times.end - times.start) if times else ()
    with _prometheus_errors(limits):
        node = parse(form.text("query"), *span)
        found = evaluation(node, source, lookback if lookback > 0 else LOOKBACK_SECONDS, limits, annotations)
    warnings = [*notes, *annotations.warnings]
    return _answer(prometheus.result(found, at, limit, warnings, annotations.infos))


@router.get("/query", summary="Instant query", openapi_extra=described(*QUERY), dependencies=LIMITED)
@router.post("/query", summary="Instant query", openapi_extra=described(*QUERY), dependencies=LIMITED)
def query(plane: ControlPlaneDep, request: Request, form: FormDep) -> Response:
    at = form.moment("time", _now(plane))

    def instant(
        node: Node, source: SeriesSource, lookback: float, limits: Limits, annotations: Annotations
    ) -> Value:
        return evaluate(node, source, at, lookback, limits, annotations=annotations)

    return _evaluated(plane, request, form, at, instant)


@router.get(
    "/query_range", summary="Range query", openapi_extra=described(*QUERY_RANGE), dependencies=LIMITED
)
@router.post(
    "/query_range", summary="Range query", openapi_extra=described(*QUERY_RANGE), dependencies=LIMITED
)
def query_range(plane: ControlPlaneDep, request: Request, form: FormDep) -> Response:
    """At most 11 000 points per series."""
    times = prometheus_form.stretch(form)

    def ranged(
        node: Node, source: SeriesSource, lookback: float, limits: Limits, annotations: Annotations
    ) -> Value:
        prometheus_form.require_range_query(node)
        span = times.start, times.end, times.step
        return evaluate_range(node, source, *span, lookback, limits, annotations=annotations)

    return _evaluated(plane, request, form, times.end, ranged, times)


# -- metadata --------------------------------------------------------------------------------------

LISTED = ("match[]", "start", "end", "limit")


def _found(plane: ControlPlane, form: Form) -> prometheus_series.FoundSeries:
    end = form.moment("end", _now(plane))
    start = form.moment("start", end - prometheus_series.DEFAULT_RANGE)
    now = _live_at(plane, end)
    oldest = now - plane.settings.retention_days * DAY_SECONDS
    with _prometheus_errors():
        return prometheus_series.find(plane.series, form.selectors(), max(start, oldest), end, now)


@router.get(
    "/series", summary="Find series by label matchers", openapi_extra=described(*LISTED), dependencies=LIMITED
)
@router.post(
    "/series", summary="Find series by label matchers", openapi_extra=described(*LISTED), dependencies=LIMITED
)
def series(plane: ControlPlaneDep, form: FormDep) -> Response:
    if not form.texts("match[]"):
        raise PrometheusError("bad_data", "no match[] parameter provided")
    limit, found = form.limit(), _found(plane, form)
    in_order = [dict(sorted(labels.items())) for labels in found.series]
    return _answer(prometheus.listing(in_order, limit, found.warnings))


@router.get("/labels", summary="Label names", openapi_extra=described(*LISTED), dependencies=LIMITED)
@router.post("/labels", summary="Label names", openapi_extra=described(*LISTED), dependencies=LIMITED)
def labels(plane: ControlPlaneDep, form: FormDep) -> Response:
    limit, found = form.limit(), _found(plane, form)
    return _answer(prometheus.listing(prometheus_series.names(found.series), limit, found.warnings))


@router.get(
    "/label/{name}/values",
    summary="Label values",
    openapi_extra=described(*LISTED),
    dependencies=LIMITED,
)
def label_values(plane: ControlPlaneDep, form: FormDep, name: str) -> Response:
    name = prometheus_form.label_name(name)
    limit, found = form.limit(), _found(plane, form)
    return _answer(prometheus.listing(prometheus_series.values(found.series, name), limit, found.warnings))


@router.get("/metadata", summary="Types, help and units", openapi_extra=described("metric", "limit"))
async def metadata(form: FormDep) -> Response:
    counts = form.count("limit"), form.count("limit_per_metric")
    return _answer(prometheus.metadata(form.text("metric"), *counts))


# -- rules, alerts, status -------------------------------------------------------------------------

RULES = ("type", "rule_name[]", "rule_group[]", "file[]", "match[]", "exclude_alerts", "group_limit")


@router.get("/rules", summary="Rules and their state", openapi_extra=described(*RULES, "group_next_token"))
def rules(plane: ControlPlaneDep, form: FormDep) -> Response:
    return _answer(prometheus.rules(plane.alerts.rules(), prometheus_form.rules_wanted(form)))


@router.get("/alerts", summary="Pending and firing alerts")
def alerts(plane: ControlPlaneDep) -> Response:
    return _answer(prometheus.alerts(view.alert for view in plane.alerts.alerts(plane.clock())))


@router.get("/status/buildinfo", summary="Build information")
async def build_info(request: Request) -> Response:
    return _answer(prometheus.build_info(request.app.version))
