"""Operational routes: liveness, readiness, metrics, the caller's identity and the API description.

Liveness does not use the store, so a full disk does not get the server killed; readiness writes to the store.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel

from alerts.matching.labels import Matcher
from controlplane.api import prometheus_form
from controlplane.api.access import ACCESS, OPEN
from controlplane.api.bodies import Stamp, StateBody
from controlplane.api.deps import CallerDep, ControlPlaneDep
from controlplane.api.prometheus import PrometheusError
from controlplane.api.readiness import Readiness
from controlplane.api.render import stamp
from controlplane.app import ControlPlane
from controlplane.errors import BadRequest
from controlplane.failover.election import ServerRole
from controlplane.metrics import exposition
from controlplane.metrics.exposition_pages import ExpositionPages
from controlplane.metrics.series.scrape import own_figures
from controlplane.model import Role
from controlplane.runtime.tokens import Token
from listeners.protocol.wire import rfc3339

router = APIRouter(tags=["operations"])

#: Settings that bound the store and what applications may send.
LIMITS = (
    "retention_days",
    "retention_bytes",
    "max_series",
    "max_queries",
    "max_queries_per_app",
    "max_agents",
    "max_agents_per_app",
    "max_events_per_second_per_app",
)


@router.get("/healthz", summary="Liveness")
async def healthz() -> StateBody:
    return StateBody(status="ok")


@router.get("/readyz", summary="Readiness", responses={503: {"model": StateBody}})
def readyz(request: Request, response: Response) -> StateBody:
    """503 with the reasons if the store does not accept writes or jobs are overdue."""
    readiness: Readiness = request.app.state.readiness
    reasons = readiness.problems()
    if reasons:
        response.status_code = 503
    return StateBody(status="ok" if not reasons else "unavailable", reasons=reasons)


@router.get("/metrics", summary="OpenMetrics exposition", response_class=Response)
def metrics(
    plane: ControlPlaneDep,
    request: Request,
    match: Annotated[list[str] | None, Query(alias="match[]")] = None,
) -> Response:
    """All samples, or those of the selectors `match[]`. Clients share a page; `Age` states its age in seconds."""
    pages: ExpositionPages = request.app.state.exposition_pages
    accept, selectors = request.headers.get("accept"), _selectors(match or [])
    active = plane.election.role is ServerRole.ACTIVE
    kind = exposition.content_type(accept), selectors, active
    page = pages.page(kind, lambda: _exposition(plane, accept, selectors, active))
    headers = {"content-type": page.content_type, "vary": "Accept, Accept-Encoding"}
    headers["age"] = str(int(pages.age(page)))
    if not _accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(page.body, headers=headers)
    return Response(page.compressed, headers={**headers, "content-encoding": "gzip"})


def _selectors(texts: list[str]) -> tuple[tuple[Matcher, ...], ...]:
    try:
        return prometheus_form.Form({"match[]": tuple(texts)}).selectors()
    except PrometheusError as error:
        raise BadRequest(str(error)) from None


def _accepts_gzip(header: str) -> bool:
    codings = (item.partition(";") for item in header.lower().split(","))
    return any(name.strip() == "gzip" and q.strip() != "q=0" for name, _, q in codings)


def _exposition(
    plane: ControlPlane, accept: str | None, selectors: exposition.Selectors, active: bool
) -> tuple[Iterator[bytes], str]:
    now = plane.clock()
    # Who scrapes both servers gets each query once.
    views = plane.fleet() if active else []
    return exposition.render(
        views,
        plane.verdicts.all(views, now),
        plane.server_metrics(),
        now,
        accept,
        totals_of=plane.window.totals,
        agents=plane.window.agents() if active else (),
        heartbeat_of=lambda agent: plane.window.agent_info(agent).get("heartbeat", {}),
        more=plane.baselines.samples(views, now),
        selectors=selectors,
    )


class WhoBody(BaseModel):
    """Name and role of the caller's token; `role` is at most that of the `person` for whom it acts."""

    name: str
    role: str
    person: str | None
    may_impersonate: bool


@router.get("/api/v1/whoami", summary="Name and role of the token, and the person it acts for")
async def whoami(caller: CallerDep) -> WhoBody:
    return WhoBody(
        name=caller.name,
        role=caller.role.value,
        person=caller.person,
        may_impersonate=caller.may_impersonate,
    )


class TokenBody(BaseModel):
    """A token without its secret. `prefix`: its first characters; `app`: the only application that it may report for."""

    id: str
    name: str
    role: str
    prefix: str
    app: str | None
    may_impersonate: bool
    created_at: str
    expires_at: Stamp
    revoked_at: Stamp


class TokensBody(BaseModel):
    """All tokens, oldest first."""

    tokens: list[TokenBody]


@router.get("/api/v1/tokens", summary="Tokens, without their secrets")
def list_tokens(plane: ControlPlaneDep) -> TokensBody:
    """`controlplane token create` and `revoke` change them, on the server's host."""
    return TokensBody(tokens=[_token_body(token) for token in plane.tokens.all()])


def _token_body(token: Token) -> TokenBody:
    return TokenBody(
        id=token.id,
        name=token.name,
        role=token.role.value,
        prefix=token.prefix,
        app=token.app,
        may_impersonate=token.may_impersonate,
        created_at=rfc3339(token.created_at),
        expires_at=stamp(token.expires_at),
        revoked_at=stamp(token.revoked_at),
    )


class RefusedBody(BaseModel):
    """How often an application went over a quota since the server started."""

    quota: str
    app: str
    count: int


class ServerBody(BaseModel):
    """This server. `since`: of its role, Unix seconds; `lease`: its number; `stages`: seconds that the last run took.

    `figures`: the metrics `controlplane_*` without labels, by name. `limits`: the settings that bound the store and what
    applications may send; null where there is no bound. `refused`: by quota and application, not shown to agents.
    """

    role: ServerRole
    since: float | None
    lease: int | None
    active: str | None
    version: str
    queries: int
    stages: dict[str, float]
    figures: dict[str, float]
    limits: dict[str, float | None]
    refused: list[RefusedBody]


@router.get("/api/v1/server", summary="Role and state of this server")
def this_server(plane: ControlPlaneDep, request: Request, caller: CallerDep) -> ServerBody:
    """`active`: where clients reach the active server, if this one is the standby."""
    election, active = plane.election, plane.election.role is ServerRole.ACTIVE
    metrics = plane.server_metrics()
    refused = {} if caller.role is Role.AGENT else metrics.quota_refused
    return ServerBody(
        role=election.role,
        since=election.active_since if active else request.app.state.began_at,
        lease=election.number if active else None,
        active=None if active else election.active_address or None,
        version=request.app.version,
        queries=plane.window.count(),
        stages={name: seconds for name, seconds in plane.stages().items() if seconds is not None},
        figures=own_figures(metrics),
        limits={name: getattr(plane.settings, name) for name in LIMITS},
        refused=[RefusedBody(quota=quota, app=app, count=n) for (quota, app), n in refused.items()],
    )


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The routes as one HTML page without scripts or content from other hosts."""
    return HTMLResponse(_page(request.app.openapi()))


def _page(schema: dict[str, Any]) -> str:
    rows = "".join(
        _row(method.upper(), path, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Control plane API</title>"
        "<style>body{font:15px/1.5 system-ui;margin:2rem auto;max-width:70rem;padding:0 1rem}"
        "td{padding:.4rem .8rem .4rem 0;vertical-align:top;border-top:1px solid #8884}</style>"
        "<h1>Control plane API</h1><p>Send <code>Authorization: Bearer TOKEN</code>. "
        'The full description with all bodies: <a href="/openapi.json">openapi.json</a>.</p>'
        f"<table>{rows}</table></html>"
    )


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    roles = "no token" if (method, path) in OPEN else ", ".join(sorted(r.value for r in ACCESS[method, path]))
    names = ", ".join(parameter["name"] for parameter in operation.get("parameters", []))
    cells = (f"<code>{method} {html.escape(path)}</code>", operation.get("summary", ""), names, roles)
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells)
