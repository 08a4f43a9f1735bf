"""Operational routes: liveness, readiness, metrics, the caller's identity and the API description.

Liveness does not use the store, so a full disk does not get the server killed; readiness writes to the store.
"""

from __future__ import annotations

import html
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from controlplane.api.access import ACCESS, OPEN
from controlplane.api.bodies import StateBody, WhoBody
from controlplane.api.deps import CallerDep, ControlPlaneDep
from controlplane.api.readiness import Readiness
from controlplane.metrics import exposition

router = APIRouter(tags=["operations"])


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
def metrics(plane: ControlPlaneDep, request: Request) -> Response:
    now, views = plane.clock(), plane.fleet()
    accept = request.headers.get("accept")
    body, content_type = exposition.render(
        views,
        plane.verdicts.all(views, now),
        plane.server_metrics(),
        now,
        accept,
        totals_of=plane.window.totals,
        agents=plane.window.agents(),
        heartbeat_of=lambda agent: plane.window.agent_info(agent).get("heartbeat", {}),
        more=plane.baselines.samples(views, now),
    )
    return Response(body, headers={"content-type": content_type})


@router.get("/api/v1/whoami", summary="Name and role of the token")
async def whoami(caller: CallerDep) -> WhoBody:
    return WhoBody(name=caller.name, role=caller.role.value)


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
