"""APIRoute that renders errors in Prometheus' or Alertmanager's format; 401 and 403 keep the API's own.

Used by `routes.prometheus` and `routes.alertmanager`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from controlplane.errors import ControlPlaneError, Forbidden, Unauthorized

#: Errors in Prometheus' and in Alertmanager's format, for the description of the API.
PROMETHEUS_ERROR = {
    "type": "object",
    "required": ["status", "errorType", "error"],
    "properties": {
        "status": {"const": "error"},
        "errorType": {"type": "string"},
        "error": {"type": "string"},
    },
}
ALERTMANAGER_ERROR = {"type": "string"}
Shape = Callable[[ControlPlaneError], Any]
Invalid = Callable[[RequestValidationError], Any]


def route_class(shape: Shape, invalid: Invalid | None = None) -> type[APIRoute]:
    """A route class that renders errors by `shape`, and invalid requests by `invalid` with status 400."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_errors(request: Request) -> Response:
                try:
                    return await handle(request)
                except (Unauthorized, Forbidden):
                    raise
                except ControlPlaneError as error:
                    headers = {} if error.retry_after is None else {"Retry-After": f"{error.retry_after:.0f}"}
                    return JSONResponse(shape(error), error.status, headers)
                except RequestValidationError as error:
                    if invalid is None:
                        raise
                    return JSONResponse(invalid(error), 400)

            return handle_errors

    return Route


def error_responses(schema: dict[str, Any], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a router whose errors have this schema, or the API's own where no route is reached."""
    schema = {"anyOf": [schema, {"$ref": "#/components/schemas/ErrorBody"}]}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": schema}},
        }
        for status in statuses
    }
