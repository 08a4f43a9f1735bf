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

from controlplane.api.exposure.impersonation import impersonated
from controlplane.errors import Forbidden, Unauthorized
from controlplane.failover.election import ServerRole, not_active
from controlplane.model import Role
from controlplane.runtime.tokens import Token, is_token_shaped

if TYPE_CHECKING:
    from controlplane.app import ControlPlane

ANYONE: frozenset[Role] = frozenset(Role)
AGENTS = frozenset({Role.AGENT})
VIEWERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})

#: Routes that need no token.
OPEN = frozenset({("GET", "/healthz"), ("GET", "/readyz")})
METRICS = ("GET", "/metrics")
#: A browser is asked here for its token as the password of HTTP Basic, and here alone.
BROWSER = frozenset({("GET", "/docs"), ("GET", "/openapi.json")})
#: Below these paths programs may send their token as the password of HTTP Basic too.
NEIGHBOURS = ("/prometheus/", "/alertmanager/", "/metrics")

ACCESS: dict[tuple[str, str], frozenset[Role]] = {
    ("POST", "/api/v1/events"): AGENTS,
    ("GET", "/api/v1/agents/{agent}/commands"): AGENTS,
    ("POST", "/api/v1/commands/{action_id}/result"): AGENTS,
    ("GET", "/api/v1/agents"): VIEWERS,
    ("GET", "/api/v1/queries"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/progress"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/runs"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/runs/{run_id}/batches/{batch_id}"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/timeline"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/events"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/capacity"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/shape"): VIEWERS,
    ("GET", "/api/v1/queries/{query_id}/what-changed"): VIEWERS,
    ("GET", "/api/v1/history"): VIEWERS,
    ("GET", "/api/v1/checkpoints"): VIEWERS,
    ("POST", "/api/v1/checkpoints/analyze"): OPERATORS,
    ("GET", "/api/v1/checkpoints/{query_id}"): VIEWERS,
    ("GET", "/api/v1/checkpoints/{query_id}/inventory"): VIEWERS,
    ("POST", "/api/v1/checkpoints/{query_id}/inventory"): OPERATORS,
    ("GET", "/api/v1/checkpoints/{query_id}/rewind"): OPERATORS,
    ("POST", "/api/v1/checkpoints/{query_id}/rewind"): OPERATORS,
    ("GET", "/api/v1/checkpoints/{query_id}/repair"): OPERATORS,
    ("POST", "/api/v1/checkpoints/{query_id}/repair"): OPERATORS,
    ("POST", "/api/v1/checkpoints/{query_id}/undo"): OPERATORS,
    ("POST", "/api/v1/preflight"): AGENTS | OPERATORS,
    ("POST", "/api/v1/queries/{query_id}/actions"): OPERATORS,
    ("POST", "/api/v1/queries/{query_id}/retire"): OPERATORS,
    ("GET", "/api/v1/policies"): VIEWERS,
    ("PUT", "/api/v1/policies"): OPERATORS,
    ("GET", "/api/v1/queries/{query_id}/policy"): VIEWERS,
    ("PUT", "/api/v1/queries/{query_id}/desired"): OPERATORS,
    ("GET", "/api/v1/ledger"): VIEWERS,
    ("GET", "/api/v1/incidents"): VIEWERS,
    ("GET", "/api/v1/incidents/{incident_id}"): VIEWERS,
    ("GET", "/api/v1/incidents/{incident_id}/bundle"): VIEWERS,
    ("GET", "/api/v1/actions"): VIEWERS,
    ("GET", "/api/v1/actions/{action_id}"): VIEWERS,
    ("GET", "/api/v1/bulk-actions"): VIEWERS,
    ("POST", "/api/v1/bulk-actions"): OPERATORS,
    ("POST", "/api/v1/bulk-actions/plan"): VIEWERS,
    ("GET", "/api/v1/bulk-actions/{bulk_id}"): VIEWERS,
    ("POST", "/api/v1/bulk-actions/{bulk_id}/cancel"): OPERATORS,
    ("GET", "/api/v1/apps"): VIEWERS,
    ("PUT", "/api/v1/apps"): ADMINS,
    ("GET", "/api/v1/apps/{app}"): VIEWERS,
    ("GET", "/api/v1/apps/{app}/logs"): OPERATORS,
    ("POST", "/api/v1/apps/{app}/actions"): OPERATORS,
    ("GET", "/api/v1/alerts"): VIEWERS,
    ("GET", "/api/v1/alerts/history"): VIEWERS,
    ("GET", "/api/v1/alerts/statistics"): VIEWERS,
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
    ("POST", "/alertmanager/api/v2/alerts"): AGENTS | OPERATORS,
    ("GET", "/alertmanager/api/v2/alerts/groups"): VIEWERS,
    ("GET", "/alertmanager/api/v2/silences"): VIEWERS,
    ("POST", "/alertmanager/api/v2/silences"): OPERATORS,
    ("GET", "/alertmanager/api/v2/silence/{silence_id}"): VIEWERS,
    ("DELETE", "/alertmanager/api/v2/silence/{silence_id}"): OPERATORS,
    ("GET", "/alertmanager/api/v2/status"): VIEWERS,
    ("GET", "/alertmanager/api/v2/receivers"): VIEWERS,
    ("GET", "/alertmanager/metrics"): VIEWERS,
    ("GET", "/api/v1/saved-views"): VIEWERS,
    ("PUT", "/api/v1/saved-views/{name}"): OPERATORS,
    ("DELETE", "/api/v1/saved-views/{name}"): OPERATORS,
    ("GET", "/api/v1/baselines"): VIEWERS,
    ("PUT", "/api/v1/baselines"): OPERATORS,
    ("GET", "/api/v1/server"): ANYONE,
    ("GET", "/api/v1/whoami"): ANYONE,
    ("GET", "/api/v1/tokens"): ADMINS,
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
    ("GET", "/prometheus/federate"): VIEWERS,
    ("GET", "/prometheus/api/v1/format_query"): VIEWERS,
    ("POST", "/prometheus/api/v1/format_query"): VIEWERS,
    ("GET", "/prometheus/api/v1/parse_query"): VIEWERS,
    ("POST", "/prometheus/api/v1/parse_query"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/config"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/flags"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/runtimeinfo"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/tsdb"): VIEWERS,
    ("GET", "/prometheus/api/v1/status/walreplay"): VIEWERS,
    ("GET", "/prometheus/api/v1/alertmanagers"): VIEWERS,
    ("GET", "/prometheus/api/v1/targets"): VIEWERS,
    ("GET", "/prometheus/api/v1/targets/metadata"): VIEWERS,
    ("GET", "/prometheus/api/v1/query_exemplars"): VIEWERS,
    ("POST", "/prometheus/api/v1/query_exemplars"): VIEWERS,
    ("GET", "/prometheus/api/v1/scrape_pools"): VIEWERS,
    ("GET", "/prometheus/-/healthy"): VIEWERS,
    ("GET", "/prometheus/-/ready"): VIEWERS,
    METRICS: VIEWERS,
    ("GET", "/docs"): ANYONE,
    ("GET", "/openapi.json"): ANYONE,
}

#: Beside GET, what a standby answers: requests that change nothing.
READS = frozenset(key for key in ACCESS if key[1].startswith("/prometheus/")) | {
    ("POST", "/api/v1/preflight")
}
#: Needs the active server: commands leave it.
COMMANDS = ("GET", "/api/v1/agents/{agent}/commands")
#: Answered before a standby has loaded its window.
SERVER = ("GET", "/api/v1/server")


async def authorize(request: Request) -> None:
    """Set `request.state.token`, or raise Unauthorized or Forbidden."""
    plane: ControlPlane = request.app.state.plane
    key = (request.method, getattr(request.scope.get("route"), "path", ""))
    if key in OPEN or (key == METRICS and plane.settings.metrics_are_open):
        return
    token = await _token_of(request, plane, key in BROWSER, key in BROWSER or _takes_basic(request))
    token = impersonated(token, request.headers)
    if token.role not in ACCESS.get(key, ()):
        raise Forbidden(f"a token with the role {token.role.value} is not allowed to do this")
    if not _is_answered_here(plane, key):
        raise not_active(plane.election.active_address)
    request.state.token = token


def _is_answered_here(plane: ControlPlane, key: tuple[str, str]) -> bool:
    if plane.election.role is ServerRole.ACTIVE:
        return plane.election.holds() or key != COMMANDS
    reads = key != COMMANDS and (key[0] == "GET" or key in READS)
    return key == SERVER or (reads and plane.follower.warm)


def _takes_basic(request: Request) -> bool:
    """Whether HTTP Basic is accepted. A browser repeats such a token by itself, so no other site may use it to write."""
    reads = request.method == "GET" or request.url.path.startswith("/prometheus/")
    return request.url.path.startswith(NEIGHBOURS) and (reads or "origin" not in request.headers)


async def _token_of(request: Request, plane: ControlPlane, browser: bool, basic: bool) -> Token:
    secret = _secret_of(request.headers.get("authorization", ""), basic)
    if secret is None:
        raise Unauthorized("send a token: Authorization: Bearer cp_…", detail={"browser": browser})
    unknown_tokens: UnknownTokens = request.app.state.unknown_tokens
    token = plane.tokens.find(secret) or await unknown_tokens.find(secret)
    if token is None:
        raise Unauthorized("the token is unknown, expired or revoked", detail={"browser": browser})
    return token


def _secret_of(header: str, basic: bool) -> str | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if scheme.lower() != "basic" or not basic:
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
                await run_in_threadpool(self._plane.stored_tokens.reload)
        return self._plane.tokens.find(secret)
