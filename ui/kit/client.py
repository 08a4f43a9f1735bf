"""HTTP client of the server's API: one method per request, JSON in, JSON out.

The only module that knows the server's URLs. The pages call it through `ui.kit.cached_reads`. Server and
token come from the environment (`CONTROLPLANE_URL`, `CONTROLPLANE_TOKEN` or `CONTROLPLANE_TOKEN_FILE`).

    ClientError              the message is one sentence for the person at the screen
    ├── ServerUnreachable    no connection, a timeout, or 5xx: a later retry helps
    ├── TokenRefused         401 or 403: another token is needed
    ├── ServerNotFound       404: the server does not have it
    └── ServerRefused        any other 4xx; `code` and `action` give the reason
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

DEFAULT_SERVER = "http://127.0.0.1:8420"
HTTP_TIMEOUT = httpx.Timeout(8.0, connect=2.0)


class ClientError(Exception):
    """Base of the errors between a page and the server."""


class ServerUnreachable(ClientError):
    """No usable answer came from the server."""


class TokenRefused(ClientError):
    """The server does not know the token, or its role does not allow the request."""


class ServerNotFound(ClientError):
    """The server does not have the requested object."""


class ServerRefused(ClientError):
    """The server refused the request. `action` is the recorded refused action, if there is one."""

    def __init__(self, message: str, code: str = "", action: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.code = code
        self.action = action


def server_url(environ: Mapping[str, str] = os.environ) -> str:
    """The server's address from the environment, without a trailing slash."""
    return environ.get("CONTROLPLANE_URL", "").strip().rstrip("/") or DEFAULT_SERVER


def token(environ: Mapping[str, str] = os.environ) -> str | None:
    """The token from the environment, else from the file it names (read at each call: tokens are rotated)."""
    if value := environ.get("CONTROLPLANE_TOKEN", "").strip():
        return value
    path = environ.get("CONTROLPLANE_TOKEN_FILE", "")
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None if path else None
    except OSError:
        return None  # the server then answers 401


class ServerClient:
    """Client of one server; safe to share between threads. Each request raises `ClientError`."""

    def __init__(
        self,
        server: str,
        read_token: Callable[[], str | None] = token,
        transport: httpx.BaseTransport | None = None,
    ):
        self.server = server
        self._token = read_token
        # trust_env=False: a proxy meant for the internet must not stand between two processes of one machine.
        tls = ssl.create_default_context() if server.startswith("https") else True
        self._http = httpx.Client(
            base_url=server, timeout=HTTP_TIMEOUT, transport=transport, trust_env=False, verify=tls
        )

    def fleet(self) -> dict[str, Any]:
        """All queries with their verdicts, worst first."""
        return self._get("/api/v1/queries")

    def query(self, query_id: str) -> dict[str, Any]:
        """One query with its verdict, runs, sources, operators and recent actions."""
        return self._get(_query_path(query_id))

    def progress(self, query_id: str, start: float, end: float, step: float) -> dict[str, Any]:
        """Progress reports of a query between two times (Unix seconds), one every `step` seconds."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get(_query_path(query_id) + "/progress", params)

    def past(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """Runs, alerts and actions of the query from the lake."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}"}
        return self._get(_query_path(query_id) + "/timeline", params)

    def series(self, query: str, start: float, end: float, step: float) -> dict[str, Any]:
        """PromQL range query; the answer is Prometheus' own JSON."""
        params = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get("/prometheus/api/v1/query_range", params)

    def instant(self, query: str) -> dict[str, Any]:
        """PromQL instant query; the answer is Prometheus' own JSON."""
        return self._get("/prometheus/api/v1/query", {"query": query})

    def query_alerts(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """Alerts of a query that fired between two times, including those that still fire."""
        params = {"query_id": query_id, "start": f"{start:.0f}", "end": f"{end:.0f}", "limit": "200"}
        return self._get("/api/v1/alerts/history", params)

    def actions(self, limit: int = 200) -> dict[str, Any]:
        """The newest actions of all queries."""
        return self._get("/api/v1/actions", {"limit": str(limit)})

    def action(self, action_id: str) -> dict[str, Any]:
        """One action with its state and outcome."""
        return self._get(f"/api/v1/actions/{quote(action_id, safe='')}")

    def whoami(self) -> dict[str, Any]:
        """Name and role of the token."""
        return self._get("/api/v1/whoami")

    def alerts(self) -> dict[str, Any]:
        """Alerts that are pending, fire, or were resolved within the last 15 minutes."""
        return self._get("/api/v1/alerts")

    def alert(self, fingerprint: str) -> dict[str, Any]:
        """One alert with its notifications."""
        return self._get(_alert_path(fingerprint))

    def alert_history(self, start: float, end: float, limit: int = 500) -> dict[str, Any]:
        """Alerts that fired between two times, newest first."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "limit": str(limit)}
        return self._get("/api/v1/alerts/history", params)

    def acknowledge(self, fingerprint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Acknowledge a firing alert; `body` has `comment` and `actor`."""
        return self._send("POST", _alert_path(fingerprint) + "/acknowledge", json=dict(body))

    def silences(self) -> dict[str, Any]:
        """All silences, expired ones included."""
        return self._get("/api/v1/silences")

    def silence(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a silence; for `body` see `ui.alerting.selection.silence_request`."""
        return self._send("POST", "/api/v1/silences", json=dict(body))

    def expire(self, silence_id: str) -> dict[str, Any]:
        """End a silence now."""
        return self._send("DELETE", f"/api/v1/silences/{quote(silence_id, safe='')}")

    def covered(self, matchers: Sequence[str]) -> dict[str, Any]:
        """Firing alerts that match all matchers, suppressed ones included: `{"alerts": […]}`.

        Uses Alertmanager's API, so that only the server parses matchers. Raises `ServerRefused` with the
        mistake in a matcher.
        """
        params: list[tuple[str, str | int | float | bool | None]] = [("filter", text) for text in matchers]
        answer = self._answer("GET", "/alertmanager/api/v2/alerts", params=params)
        if answer.is_success and isinstance(found := _json(answer), list):
            return {"alerts": found}
        return _body(answer)

    def rules(self) -> dict[str, Any]:
        """Rule groups with the state and last evaluation of each rule."""
        return self._get("/api/v1/rules")

    def runbook(self, name: str) -> dict[str, Any]:
        """Markdown of a shipped runbook."""
        return self._get(f"/api/v1/runbooks/{quote(name, safe='')}")

    def notifications(self, limit: int = 500) -> dict[str, Any]:
        """The newest notifications, sent and suppressed."""
        return self._get("/api/v1/notifications", {"limit": str(limit)})

    def receivers(self) -> dict[str, Any]:
        """The receivers of notifications, and the problem where they do not deliver."""
        return self._get("/api/v1/receivers")

    def act(self, query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
        """Request an action. The server carries out requests with the same key only once."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._send("POST", _query_path(query_id) + "/actions", json=dict(body), headers=headers)

    def checkpoints(self) -> dict[str, Any]:
        """The checkpoint of each query with its verdict, worst first."""
        return self._get("/api/v1/checkpoints")

    def checkpoint(self, query_id: str) -> dict[str, Any]:
        """One checkpoint with its findings, state stores, growth, and the changes since the last run."""
        return self._get(_checkpoint_path(query_id))

    def request_inventory(self, query_id: str) -> dict[str, Any]:
        """Request an inventory of a checkpoint: `{"requested", "by"}`.

        Raises `ServerRefused` if nobody can take one.
        """
        return self._send("POST", _checkpoint_path(query_id) + "/inventory", json={})

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._send("GET", path, params=params)

    def _send(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        return _body(self._answer(method, path, **rest))

    def _answer(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **rest: Any
    ) -> httpx.Response:
        bearer = {"Authorization": f"Bearer {secret}"} if (secret := self._token()) else {}
        try:
            return self._http.request(method, path, headers={**bearer, **(headers or {})}, **rest)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(_unreachable_message(self.server, error)) from error


def _query_path(query_id: str) -> str:
    return f"/api/v1/queries/{quote(query_id, safe='')}"


def _alert_path(fingerprint: str) -> str:
    return f"/api/v1/alerts/{quote(fingerprint, safe='')}"


def _checkpoint_path(query_id: str) -> str:
    return f"/api/v1/checkpoints/{quote(query_id, safe='')}"


def _unreachable_message(server: str, error: Exception) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"No connection to the server at {server}."
    if isinstance(error, httpx.TimeoutException):
        return f"The server at {server} did not answer in time."
    return f"The server at {server} gave no usable answer ({type(error).__name__})."


def _body(answer: httpx.Response) -> dict[str, Any]:
    """The JSON of a successful answer; any other is raised as a `ClientError`."""
    body = _json(answer)
    if answer.is_success and isinstance(body, dict):
        return body
    raise _error(answer.status_code, body)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _error(status: int, body: Any) -> ClientError:
    """The error in the API's form `{"error": {"code", "message", "detail"}}` or in another one.

    Prometheus' API has the message itself under `error`; Alertmanager's API answers with a bare string.
    """
    found = (
        body.get("error") if isinstance(body, dict) else {"message": body if isinstance(body, str) else ""}
    )
    error = found if isinstance(found, dict) else {}
    prometheus = found if isinstance(found, str) else ""
    message = str(error.get("message") or prometheus or f"The server answered {status}.")
    if status in (401, 403):
        return TokenRefused(f"The server refused the token ({status}): {message}")
    if status == 404:
        return ServerNotFound(message)
    if 400 <= status < 500:
        detail = error.get("detail")
        action = detail.get("action") if isinstance(detail, dict) else None
        return ServerRefused(
            message, str(error.get("code") or ""), action if isinstance(action, dict) else None
        )
    return ServerUnreachable(f"The server cannot answer now ({status}): {message}")
