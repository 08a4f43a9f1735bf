"""The parts of Prometheus' HTTP API besides queries: federation, expressions as text and tree, status, health.

Grafana and promtool ask for them. What this server does not have (targets, exemplars) is an empty list, as in a
Prometheus without them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from alerts.promql.errors import ParseError
from alerts.promql.syntax.documents import document
from alerts.promql.syntax.nodes import Node
from alerts.promql.syntax.parser import parse
from alerts.promql.syntax.printing import formatted
from controlplane.api import alertmanager, prometheus, prometheus_form
from controlplane.api.deps import ControlPlaneDep
from controlplane.api.error_formats import route_class
from controlplane.api.prometheus import PrometheusError
from controlplane.api.routes.prometheus import ERRORS, LIMITED, FormDep, described
from controlplane.metrics import federation
from listeners.protocol.wire import rfc3339

TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}
router = APIRouter(
    prefix="/prometheus", tags=["prometheus"], route_class=route_class(prometheus.failure), responses=ERRORS
)
EXPRESSION = described("query")


def _answer(data: Any) -> Response:
    return Response(prometheus.success(json.dumps(data)), media_type="application/json")


def _parsed(form: FormDep) -> Node:
    try:
        return parse(form.text("query"))
    except ParseError as error:
        raise prometheus_form.unreadable(error) from None


@router.get(
    "/federate",
    summary="Current samples of series",
    openapi_extra=described("match[]"),
    responses=TEXT,
    dependencies=LIMITED,
)
def federate(plane: ControlPlaneDep, form: FormDep) -> Response:
    selectors, now = form.selectors(), plane.clock()
    if not selectors:
        raise PrometheusError("bad_data", "no match[] parameter provided")
    external = plane.alerts.config.external_labels
    body = federation.exposition(plane.series.live(now), selectors, external, now)
    return Response(body, headers={"content-type": federation.CONTENT_TYPE})


@router.get("/api/v1/format_query", summary="Format an expression", openapi_extra=EXPRESSION)
@router.post("/api/v1/format_query", summary="Format an expression", openapi_extra=EXPRESSION)
def format_query(form: FormDep) -> Response:
    return _answer(formatted(_parsed(form)))


@router.get("/api/v1/parse_query", summary="The tree of an expression", openapi_extra=EXPRESSION)
@router.post("/api/v1/parse_query", summary="The tree of an expression", openapi_extra=EXPRESSION)
def parse_query(form: FormDep) -> Response:
    return _answer(document(_parsed(form)))


# -- status ----------------------------------------------------------------------------------------


@router.get("/api/v1/status/config", summary="The configuration of notifications, without secrets")
def config(plane: ControlPlaneDep) -> Response:
    return _answer({"yaml": alertmanager.written(plane.alerts.config)})


@router.get("/api/v1/status/flags", summary="Settings as Prometheus' flags")
def flags(plane: ControlPlaneDep) -> Response:
    settings = plane.settings
    return _answer(
        {
            "query.lookback-delta": "5m",
            "query.max-samples": str(prometheus_form.MAX_POINTS),
            "rules.alert.resend-delay": "1m",
            "storage.tsdb.retention.time": f"{settings.retention_days:g}d",
            "web.enable-remote-write-receiver": "false",
            "web.external-url": settings.dashboard_url,
        }
    )


@router.get("/api/v1/status/runtimeinfo", summary="Start, series in memory, retention")
def runtime_info(plane: ControlPlaneDep, request: Request) -> Response:
    return _answer(
        {
            "startTime": rfc3339(request.app.state.began_at),
            "CWD": "",
            "reloadConfigSuccess": True,
            "lastConfigTime": rfc3339(request.app.state.began_at),
            "corruptionCount": 0,
            "goroutineCount": 0,
            "GOMAXPROCS": 1,
            "GOGC": "",
            "GODEBUG": "",
            "storageRetention": f"{plane.settings.retention_days:g}d",
            "serverTime": rfc3339(plane.clock()),
            "implementation": f"spark-controlplane on Python {sys.version.split()[0]}",
        }
    )


@router.get("/api/v1/status/tsdb", summary="Number of series in memory")
def tsdb(plane: ControlPlaneDep) -> Response:
    counts: dict[str, int] = {}
    for name, _, _ in plane.series.live(plane.clock()):
        counts[name] = counts.get(name, 0) + 1
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
    now = round(plane.clock() * 1000)
    series = sum(counts.values())
    return _answer(
        {
            "headStats": {
                "numSeries": series,
                "numLabelPairs": 0,
                "chunkCount": series,
                "minTime": now,
                "maxTime": now,
            },
            "seriesCountByMetricName": [{"name": name, "value": count} for name, count in largest],
            "labelValueCountByLabelName": [],
            "memoryInBytesByLabelName": [],
            "seriesCountByLabelValuePair": [],
        }
    )


@router.get("/api/v1/status/walreplay", summary="Nothing is replayed while requests are answered")
def wal_replay() -> Response:
    return _answer({"min": 0, "max": 0, "current": 0, "state": "done"})


@router.get("/api/v1/alertmanagers", summary="The Alertmanagers to which alerts are also sent")
def alertmanagers(plane: ControlPlaneDep) -> Response:
    active = [{"url": f"{status.name}/api/v2/alerts"} for status in plane.alerts.alertmanagers()]
    return _answer({"activeAlertmanagers": active, "droppedAlertmanagers": []})


@router.get("/api/v1/targets", summary="No targets: drivers push")
def targets() -> Response:
    return _answer({"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}})


@router.get("/api/v1/targets/metadata", summary="No targets: drivers push")
@router.get("/api/v1/query_exemplars", summary="No exemplars")
@router.post("/api/v1/query_exemplars", summary="No exemplars")
@router.get("/api/v1/scrape_pools", summary="No targets: drivers push")
def nothing(request: Request) -> Response:
    return _answer({"scrapePools": []} if request.url.path.endswith("scrape_pools") else [])


# The response class is not that of plain text, because errors are JSON.
@router.get("/-/healthy", summary="Liveness, for promtool", response_class=Response, responses=TEXT)
@router.get("/-/ready", summary="Readiness, for promtool", response_class=Response, responses=TEXT)
def health(request: Request) -> Response:
    ready = not request.url.path.endswith("ready") or not request.app.state.readiness.problems()
    state = "Ready" if request.url.path.endswith("ready") else "Healthy"
    return PlainTextResponse(
        f"spark-controlplane is {state}.\n" if ready else "Service Unavailable\n", 200 if ready else 503
    )
