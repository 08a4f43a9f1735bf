"""APIRoute whose endpoint takes the request itself: access control, then the endpoint, nothing else.

FastAPI resolves dependencies, validates parameters and runs endpoints in threads, which takes a millisecond a request: too
much for a route that a fleet calls hundreds of times a second. The description of the API is made from the endpoint's
signature as for any other route. Used by `controlplane.api.routes.events`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from controlplane.api.access import authorize


class DirectRoute(APIRoute):
    """A route with an endpoint `async (request, *, header: str | None …) -> Response`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        headers = [(field.name, field.alias) for field in self.dependant.header_params]

        async def handle(request: Request) -> Response:
            await authorize(request)
            sent = request.headers
            response: Response = await endpoint(request, **{name: sent.get(alias) for name, alias in headers})
            return response

        return handle
