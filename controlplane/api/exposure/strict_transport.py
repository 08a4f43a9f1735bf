"""ASGI middleware for a server with TLS: browsers that came by https do not come back by http."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = (b"strict-transport-security", b"max-age=31536000")


class StrictTransport:
    """Adds the header to every answer over TLS."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), HEADER]}
            await send(message)

        await self.app(scope, receive, with_header if scope.get("scheme") == "https" else send)
