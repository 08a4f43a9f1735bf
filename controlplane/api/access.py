"""Access control: roles per route in one table, deny by default.

A route that is not in the table answers 403 to every role. `authorize` is a dependency of the whole application, runs
before a body is read, and does I/O only for an unknown token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from controlplane.errors import Forbidden, Unauthorized
from controlplane.model import Role
from controlplane.runtime.tokens import Token, is_token_shaped

if TYPE_CHECKING:
    from controlplane.app import ControlPlane

ANYONE: frozenset[Role] = frozenset(Role)
AGENTS = frozenset({Role.AGENT})
VIEWERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})

#: Routes that need no token.
OPEN = frozenset({("GET", "/healthz"), ("GET", "/readyz")})
METRICS = ("GET", "/metrics")
#: Only here a browser may send its token as the password of HTTP Basic.
BROWSER = frozenset({("GET", "/docs"), ("GET", "/openapi.json")})

ACCESS: dict[tuple[str, str], frozenset[Role]] = {
    ("POST", "/api/v1/events"): AGENTS,
    ("GET", "/api/v1/agents/{agent}/commands"): AGENTS,
    ("POST", "/api/v1/commands/{action_id}/result"): AGENTS,
    ("GET", "/api/v1/agents"): VIEWERS,
    ("GET", "/api/v1/queries"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/progress"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/runs"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/timeline"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/events"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/shape"): VIEWERS,
    ("GET", "/api/v1/history"): VIEWERS,
    ("GET", "/api/v1/checkpoints"): VIEWERS,
    ("POST", "/api/v1/checkpoints/analyze"): OPERATORS,
    ("GET", "/api/v1/checkpoints/{query_id}"): VIEWERS,
    ("GET", "/api/v1/checkpoints/{query_id}/inventory"): VIEWERS,
    ("POST", "/api/v1/checkpoints/{query_id}/inventory"): OPERATORS,
    ("POST", "/api/v1/preflight"): AGENTS | OPERATORS,
    ("POST", "/api/v1/queries/{query_id}/actions"): OPERATORS,
    ("POST", "/api/v1/queries/{query_id}/retire"): OPERATORS,
    ("GET", "/api/v1/actions"): VIEWERS,
    ("GET", "/api/v1/actions/{action_id}"): VIEWERS,
    ("GET", "/api/v1/alerts"): VIEWERS,
    ("GET", "/api/v1/alerts/history"): VIEWERS,
    ("GET", "/api/v1/alerts/{fingerprint}"): VIEWERS,
    ("POST", "/api/v1/alerts/{fingerprint}/acknowledge"): OPERATORS,
    ("GET", "/api/v1/notifications"): VIEWERS,
    ("GET", "/api/v1/receivers"): VIEWERS,
    ("POST", "/api/v1/receivers/try"): OPERATORS,
    ("GET", "/api/v1/silences"): VIEWERS,
    ("POST", "/api/v1/silences"): OPERATORS,
    ("DELETE", "/api/v1/silences/{silence_id}"): OPERATORS,
    ("GET", "/api/v1/rules"): VIEWERS,
    ("POST", "/api/v1/rules/replay"): OPERATORS,
    ("GET", "/api/v1/runbooks/{name}"): VIEWERS,
    ("GET", "/alertmanager/api/v2/alerts"): VIEWERS,
    ("POST", "/alertmanager/api/v2/alerts"): OPERATORS,
    ("GET", "/alertmanager/api/v2/alerts/groups"): VIEWERS,
    ("GET", "/alertmanager/api/v2/silences"): VIEWERS,
    ("POST", "/alertmanager/api/v2/silences"): OPERATORS,
    ("GET", "/alertmanager/api/v2/silence/{silence_id}"): VIEWERS,
    ("DELETE", "/alertmanager/api/v2/silence/{silence_id}"): OPERATORS,
    ("GET", "/alertmanager/api/v2/status"): VIEWERS,
    ("GET", "/alertmanager/api/v2/receivers"): VIEWERS,
    ("GET", "/alertmanager/metrics"): VIEWERS,
    ("GET", "/api/v1/baselines"): VIEWERS,
    ("PUT", "/api/v1/baselines"): OPERATORS,
    ("GET", "/api/v1/whoami"): ANYONE,
    ("GET", "/prometheus/api/v1/query"): VIEWERS,
    ("POST", "/prometheus/api/v1/query"): VIEWERS,
    ("GET", "/prometheus/api/v1/query_range"): VIEWERS,
    ("POST", "/prometheus/api/v1/query_range"): VIEWERS,
    ("GET", "/prometheus/api/v1/series"): VIEWERS,
    ("POST", "/prometheus/api/v1/series"): VIEWERS,
    ("GET", "/prometheus/api/v1/labels"): VIEWERS,
    ("POST", "/prometheus/api/v1/labels"): VIEWERS,
    ("GET", "/prometheus/api/v1/label/{name}/values"): VIEWERS,
    ("GET", "/prometheus/api/v1/metadata"): VIEWERS,
    ("GET", "/prometheus/api/v1/rules"): VIEWERS,
    ("GET", "/prometheus/api/v1/alerts"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/buildinfo"): VIEWERS,
    METRICS: VIEWERS,
    ("GET", "/docs"): ANYONE,
    ("GET", "/openapi.json"): ANYONE,
}


async def authorize(request: Request) -> None:
    """Set `request.state.token`, or raise Unauthorized or Forbidden."""
    plane: ControlPlane = request.app.state.plane
    key = (request.method, getattr(request.scope.get("route"), "path", ""))
    if key in OPEN or (key == METRICS and not plane.settings.metrics_need_token):
        return
    token = await _token_of(request, plane, browser=key in BROWSER)
    if token.role not in ACCESS.get(key, ()):
        raise Forbidden(f"a token with the role {token.role.value} is not allowed to do this")
    request.state.token = token


async def _token_of(request: Request, plane: ControlPlane, browser: bool) -> Token:
    secret = _secret_of(request.headers.get("authorization", ""), browser)
    if secret is None:
        raise Unauthorized("send a token: Authorization: Bearer cp_…", detail={"browser": browser})
    unknown_tokens: UnknownTokens = request.app.state.unknown_tokens
    token = plane.tokens.find(secret) or await unknown_tokens.find(secret)
    if token is None:
        raise Unauthorized("the token is unknown, expired or revoked", detail={"browser": browser})
    return token


def _secret_of(header: str, browser: bool) -> str | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if scheme.lower() != "basic" or not browser:
        return None
    try:
        return base64.b64decode(value, validate=True).decode("utf-8").partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


class UnknownTokens:
    """Looks up tokens that another process may just have created: reloads the registry at most once per second.

    All requests with an unknown token wait for one shared reload, so guessing is slow and does not load the store.
    """

    def __init__(self, plane: ControlPlane, interval: float = 1.0):
        self._plane = plane
        self._interval = interval
        self._lock: asyncio.Lock | None = None
        self._read_at = float("-inf")

    async def find(self, secret: str) -> Token | None:
        """The valid token of this secret after a reload, or None."""
        if not is_token_shaped(secret):
            return None
        loop = asyncio.get_running_loop()
        arrived_at = loop.time()
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._read_at < arrived_at:
                await asyncio.sleep(max(0.0, self._read_at + self._interval - loop.time()))
                self._read_at = loop.time()
                await run_in_threadpool(self._plane.reload_tokens)
        return self._plane.tokens.find(secret)
