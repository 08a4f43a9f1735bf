"""The only file that knows the server's URLs: one method a question, JSON in, JSON out.

The pages call it through `ui.kit.cached_reads`; it calls the server with httpx. Where the server is and which token to
show come from the environment (`CONTROLPLANE_URL`, `CONTROLPLANE_TOKEN` or `CONTROLPLANE_TOKEN_FILE`).

    ClientError           the message is one sentence for the person at the screen
    ├── ServerAway        no connection, a timeout, or 5xx: trying again later helps
    ├── TokenRefused      401 or 403: another token is needed
    ├── NotFound          404: the server does not know it
    └── Refused           the server said no to a request; `code` and `action` say why
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
    """Root of what can go wrong between a page and the server."""


class ServerUnreachable(ClientError):
    """The server gave no usable answer."""


class TokenRefused(ClientError):
    """The server knows our token not, or does not let it do this."""


class ServerNotFound(ClientError):
    """The server does not know what was asked for."""


class ServerRefused(ClientError):
    """The server understood and said no. `action` is the refused action on record, where there is one."""

    def __init__(self, message: str, code: str = "", action: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.code = code
        self.action = action


def server_url(environ: Mapping[str, str] = os.environ) -> str:
    return environ.get("CONTROLPLANE_URL", "").strip().rstrip("/") or DEFAULT_SERVER


def token(environ: Mapping[str, str] = os.environ) -> str | None:
    """The token from the environment, else from the file it names (read each time: tokens are rotated)."""
    if value := environ.get("CONTROLPLANE_TOKEN", "").strip():
        return value
    path = environ.get("CONTROLPLANE_TOKEN_FILE", "")
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None if path else None
    except OSError:
        return None  # the server's 401 then says what is missing


class ServerClient:
    """A connection to one server; safe to share between threads."""

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
        return self._get("/api/v1/queries")

    def query(self, query_id: str) -> dict[str, Any]:
        return self._get(_query_path(query_id))

    def progress(self, query_id: str, start: float, end: float, step: float) -> dict[str, Any]:
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get(_query_path(query_id) + "/progress", params)

    def past(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """What the lake tells of the query's runs, alerts and actions."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}"}
        return self._get(_query_path(query_id) + "/past", params)

    def series(self, query: str, start: float, end: float, step: float) -> dict[str, Any]:
        """A range query in PromQL; the answer is Prometheus' own JSON."""
        params = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get("/prometheus/api/v1/query_range", params)

    def instant(self, query: str) -> dict[str, Any]:
        """PromQL as it stands now; the answer is Prometheus' own JSON."""
        return self._get("/prometheus/api/v1/query", {"query": query})

    def query_alerts(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """The alerts of a query that fired in that time, those that fire still too."""
        params = {"query_id": query_id, "start": f"{start:.0f}", "end": f"{end:.0f}", "limit": "200"}
        return self._get("/api/v1/alerts/history", params)

    def actions(self, limit: int = 200) -> dict[str, Any]:
        return self._get("/api/v1/actions", {"limit": str(limit)})

    def action(self, action_id: str) -> dict[str, Any]:
        return self._get(f"/api/v1/actions/{quote(action_id, safe='')}")

    def whoami(self) -> dict[str, Any]:
        return self._get("/api/v1/whoami")

    def alerts(self) -> dict[str, Any]:
        """What is pending, fires, or was resolved within the last 15 minutes."""
        return self._get("/api/v1/alerts")

    def alert(self, fingerprint: str) -> dict[str, Any]:
        return self._get(_alert_path(fingerprint))

    def alert_history(self, start: float, end: float, limit: int = 500) -> dict[str, Any]:
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "limit": str(limit)}
        return self._get("/api/v1/alerts/history", params)

    def acknowledge(self, fingerprint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", _alert_path(fingerprint) + "/acknowledge", json=dict(body))

    def silences(self) -> dict[str, Any]:
        return self._get("/api/v1/silences")

    def silence(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", "/api/v1/silences", json=dict(body))

    def expire(self, silence_id: str) -> dict[str, Any]:
        return self._send("DELETE", f"/api/v1/silences/{quote(silence_id, safe='')}")

    def covered(self, matchers: Sequence[str]) -> dict[str, Any]:
        """The firing alerts that pass all these matchers, muted ones too: `{"alerts": […]}`.

        Asked of Alertmanager's API, so that the server alone judges matchers. `ServerRefused` says what is wrong
        with one.
        """
        params: list[tuple[str, str | int | float | bool | None]] = [("filter", text) for text in matchers]
        answer = self._answer("GET", "/alertmanager/api/v2/alerts", params=params)
        if answer.is_success and isinstance(found := _json(answer), list):
            return {"alerts": found}
        return _body(answer)

    def rules(self) -> dict[str, Any]:
        return self._get("/api/v1/rules")

    def runbook(self, name: str) -> dict[str, Any]:
        return self._get(f"/api/v1/runbooks/{quote(name, safe='')}")

    def notifications(self, limit: int = 500) -> dict[str, Any]:
        return self._get("/api/v1/notifications", {"limit": str(limit)})

    def act(self, query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
        """Ask for an action. The same key asks for the same action once, however often it is sent."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._send("POST", _query_path(query_id) + "/actions", json=dict(body), headers=headers)

    def checkpoints(self) -> dict[str, Any]:
        """Every query's checkpoint with its verdict, worst first."""
        return self._get("/api/v1/checkpoints")

    def checkpoint(self, query_id: str) -> dict[str, Any]:
        """One checkpoint with its findings, state stores, growth, and what changed since the last run."""
        return self._get(_checkpoint_path(query_id))

    def look(self, query_id: str) -> dict[str, Any]:
        """Ask for a fresh look at a checkpoint: `{"requested", "by"}`; `ServerRefused` says why nobody can."""
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
            raise ServerUnreachable(_why_away(self.server, error)) from error


def _query_path(query_id: str) -> str:
    return f"/api/v1/queries/{quote(query_id, safe='')}"


def _alert_path(fingerprint: str) -> str:
    return f"/api/v1/alerts/{quote(fingerprint, safe='')}"


def _checkpoint_path(query_id: str) -> str:
    return f"/api/v1/checkpoints/{quote(query_id, safe='')}"


def _why_away(server: str, error: Exception) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"No connection to the server at {server}."
    if isinstance(error, httpx.TimeoutException):
        return f"The server at {server} did not answer in time."
    return f"The server at {server} gave no usable answer ({type(error).__name__})."


def _body(answer: httpx.Response) -> dict[str, Any]:
    """The JSON of a good answer; each bad one as the error that fits it."""
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
    """The contract's error shape `{"error": {"code", "message", "detail"}}`, or what a stranger answered.

    Alertmanager's API answers a mistake with a bare string.
    """
    said = body.get("error") if isinstance(body, dict) else {"message": body if isinstance(body, str) else ""}
    error = said if isinstance(said, dict) else {}
    prometheus = said if isinstance(said, str) else ""  # its API says the sentence itself
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
