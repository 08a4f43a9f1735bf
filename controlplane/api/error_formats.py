"""Routes that say no as their clients expect it, but for the question whether somebody may ask at all.

The neighbours' APIs (`routes.prometheus`, `routes.alertmanager`) have shapes of their own for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from controlplane.errors import ControlPlaneError, Forbidden, Unauthorized

Shape = Callable[[ControlPlaneError], Any]
Invalid = Callable[[RequestValidationError], Any]


def speaking(shape: Shape, invalid: Invalid | None = None) -> type[APIRoute]:
    """A kind of route whose errors have this shape; `invalid`: that of a request that is wrong, with 400."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    return await handle(request)
                except (Unauthorized, Forbidden):
                    raise
                except ControlPlaneError as error:
                    after = {} if error.retry_after is None else {"Retry-After": f"{error.retry_after:.0f}"}
                    return JSONResponse(shape(error), error.status, after)
                except RequestValidationError as error:
                    if invalid is None:
                        raise
                    return JSONResponse(invalid(error), 400)

            return answer

    return Route
