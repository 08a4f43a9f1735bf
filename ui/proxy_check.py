"""ASGI middleware for a dashboard behind a proxy that logs people in: only the proxy may name them.

`ui.security_headers` adds it where `CONTROLPLANE_TRUSTED_PROXIES` is set. A request from any other address is refused,
because it could carry any name, and so is one that carries a header twice: a proxy that adds its header to that of
the browser would pass on a forged one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH = "/_stcore/health"  # of probes, which do not come through the proxy
NOT_THE_PROXY = "This dashboard is reached through its proxy only (--trusted-proxy).\n"
TWICE = "The proxy must replace the headers that name the person, not add to them.\n"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks separated by commas, such as `10.0.0.0/8, ::1`. Raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether an address, also an IPv4 one written as IPv6, lies in one of the networks."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in networks)


class ProxyCheck:
    """Refuses what does not come from `networks` or has one of `headers` twice."""

    def __init__(self, app: ASGIApp, networks: Sequence[Network], headers: Sequence[str]):
        self.app, self.networks, self.headers = app, networks, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] == HEALTH:
            return await self.app(scope, receive, send)
        refusal = self._refusal(scope)
        if not refusal:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":  # a close before the handshake is answered with 403
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal.strip()})
        await PlainTextResponse(refusal, 403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        peer = scope.get("client")
        if not peer or not is_within(peer[0], self.networks):
            return NOT_THE_PROXY
        given = Headers(scope=scope)
        return TWICE if any(len(given.getlist(name)) > 1 for name in self.headers) else ""
