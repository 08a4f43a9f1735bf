"""ASGI middleware that refuses requests for a foreign host name, against DNS rebinding.

A page of another site can make its own name resolve to this server's address; the browser then sends that name as
Host. An IP address as Host cannot be rebound, so addresses are always accepted: probes and scrapers use them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

#: Probes may send any Host, or none; the answers are the same for everybody.
PROBES = frozenset({"/healthz", "/readyz"})


class HostCheck:
    """Answers 403 to HTTP requests whose Host is none of `names`; `*.example.com` and `*` are patterns."""

    def __init__(self, app: ASGIApp, names: Iterable[str]):
        self.app = app
        self._allows = lru_cache(1024)(lambda host, names=tuple(names): is_allowed(host, names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            return await self.app(scope, receive, send)
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if self._allows(host):
            return await self.app(scope, receive, send)
        await _refusal(host.decode("latin-1"))(scope, receive, send)


def _refusal(host: str) -> JSONResponse:
    message = f"the host name {host[:100]!r} is not allowed; start the server with --allowed-host NAME"
    return JSONResponse({"error": {"code": "host_not_allowed", "message": message, "detail": {}}}, 403)


def is_allowed(host: bytes, names: Iterable[str]) -> bool:
    """Whether a Host header names an IP address or one of `names`."""
    name = _name_of(host)
    return name is not None and (_is_address(name) or any(_matches(name, pattern) for pattern in names))


def _name_of(host: bytes) -> str | None:
    """`Example.com.:8420` → `example.com`; None for what is no host."""
    try:
        parts = urlsplit("//" + host.decode("ascii"))
        _ = parts.port  # raises for a port that is none
    except ValueError:
        return None
    tail = parts.netloc.partition("]")[2]  # of an IPv6 address, after which only a port may come
    extra = parts.path or parts.query or parts.fragment or "@" in parts.netloc or tail[:1] not in ("", ":")
    return None if extra or not parts.hostname else parts.hostname.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return pattern in ("*", name)
