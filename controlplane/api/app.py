"""FastAPI application of a control plane: routers, lifespan and error responses.

Called by `controlplane.api.server`. Only this module turns the errors of `controlplane.errors` and of the framework
into responses.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import metadata
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from controlplane.api.access import UnknownTokens, authorize
from controlplane.api.bodies import ErrorBody
from controlplane.api.dashboard import saved_views
from controlplane.api.exposure.strict_transport import StrictTransport
from controlplane.api.fleet.cache import FleetCache
from controlplane.api.host_check import HostCheck
from controlplane.api.incidents import routes as incident_routes
from controlplane.api.intake import BodyBudget
from controlplane.api.limiter import EvaluationLimiter
from controlplane.api.readiness import Readiness
from controlplane.api.routes import (
    actions,
    agents,
    alertmanager,
    alerts,
    apps,
    baselines,
    bulk_actions,
    capacity,
    changes,
    checkpoints,
    events,
    history,
    ops,
    prometheus,
    prometheus_status,
    queries,
    rules,
    silences,
    supervision,
)
from controlplane.app import ControlPlane
from controlplane.errors import ControlPlaneError, NotActive
from controlplane.ingest.commit_waits import CommitWaits
from controlplane.ingest.fair_share import FairShare
from controlplane.metrics.exposition_pages import ExpositionPages

log = logging.getLogger(__name__)
ROUTERS = (
    events.router,
    agents.router,
    queries.router,
    saved_views.router,
    capacity.router,
    changes.router,
    history.router,
    actions.router,
    supervision.router,
    incident_routes.router,
    bulk_actions.router,
    apps.router,
    checkpoints.router,
    baselines.router,
    alerts.router,
    silences.router,
    rules.router,
    rules.runbooks,
    ops.router,
    prometheus.router,
    prometheus_status.router,
    alertmanager.router,
)
MAX_MISTAKES = 20
#: Threads for reads of the API and for large batches of events.
WORKER_THREADS = 100


def create_app(plane: ControlPlane) -> FastAPI:
    """The application. Its lifespan starts the control plane and stops it at the end."""
    app = FastAPI(
        title="Spark control plane",
        version=_version(),
        lifespan=_lifespan,
        dependencies=[Depends(authorize)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a redirect would lead to the Host of the request
        responses={status: {"model": ErrorBody} for status in (400, 401, 403, 404, 409, 413, 422, 429, 503)},
        exception_handlers={
            ControlPlaneError: _known_error,
            HTTPException: _http_error,
            RequestValidationError: _invalid_request,
            ClientDisconnect: _disconnected,
            Exception: _internal_error,
        },
    )
    app.add_middleware(HostCheck, names=plane.settings.host_names)
    if plane.certificate:
        app.add_middleware(StrictTransport)
    app.state.plane = plane
    app.state.unknown_tokens = UnknownTokens(plane)
    app.state.fleet_cache = FleetCache(plane)
    app.state.exposition_pages = ExpositionPages()
    app.state.readiness = Readiness(plane.readiness_problems)
    app.state.budget = BodyBudget(plane.settings.max_bodies_bytes)
    app.state.shares = FairShare()
    app.state.commit_waits = CommitWaits()
    app.state.replaying = threading.Lock()
    app.state.began_at = plane.clock()
    app.state.limiter = EvaluationLimiter(prometheus.MAX_EVALUATIONS, prometheus.QUEUE_SECONDS)
    for router in ROUTERS:
        app.include_router(router)
    return app


def _version() -> str:
    try:
        return metadata.version("spark-controlplane")
    except metadata.PackageNotFoundError:
        return "0"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    plane: ControlPlane = app.state.plane
    plane.outbox.bind(asyncio.get_running_loop())
    current_default_thread_limiter().total_tokens = WORKER_THREADS
    await run_in_threadpool(plane.start)
    try:
        yield
    finally:
        plane.outbox.close()
        await run_in_threadpool(plane.stop)


def _error_response(
    status: int, code: str, message: str, detail: Any = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    body = {"error": {"code": code, "message": message, "detail": detail or {}}}
    return JSONResponse(body, status_code=status, headers=headers)


async def _known_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ControlPlaneError)
    detail, headers = dict(error.detail), {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Basic realm="token"' if detail.pop("browser", False) else "Bearer"
    if error.retry_after is not None:
        headers["Retry-After"] = f"{error.retry_after:.0f}"
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Agents ask the standby again and again while no server is active.
        level = logging.DEBUG if isinstance(error, NotActive) else logging.WARNING
        log.log(level, "answered %d %s: %s", error.status, error.code, error)
    return _error_response(error.status, error.code, str(error), detail, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {
        404: f"there is no resource at {request.url.path[:200]}",
        405: f"the method {request.method} is not allowed at this path",
    }
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    message = messages.get(error.status_code, str(error.detail))
    return _error_response(error.status_code, code, message, headers=dict(error.headers or {}))


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    mistakes = [_mistake_of(mistake) for mistake in error.errors()[:MAX_MISTAKES]]
    message = "; ".join(f"{m['where']}: {m['what']}" for m in mistakes[:3])
    return _error_response(422, "invalid", message, {"mistakes": mistakes})


def _mistake_of(mistake: dict[str, Any]) -> dict[str, str]:
    place: Sequence[Any] = mistake.get("loc", ())
    return {"where": ".".join(str(part)[:80] for part in place), "what": str(mistake.get("msg", ""))[:300]}


async def _disconnected(_: Request, error: Exception) -> Response:
    return Response(status_code=400)  # the client has disconnected


async def _internal_error(request: Request, error: Exception) -> Response:
    request_id = secrets.token_hex(4)
    log.error("request %s: %s %s failed", request_id, request.method, request.url.path, exc_info=error)
    detail = {"request": request_id}
    return _error_response(
        500, "internal", f"internal error; see the server log (request {request_id})", detail
    )
