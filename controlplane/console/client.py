"""A client of the HTTP API on the standard library: JSON in, JSON out, errors in words.

Called by the commands and the demonstration; finds server and token where the settings say: `CONTROLPLANE_TOKEN`,
`CONTROLPLANE_TOKEN_FILE`, else `admin.token` of the data directory.
"""

from __future__ import annotations

import gzip
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from controlplane.console.errors import CallFailed, RequestRefused, ServerFailed, Unreachable, UsageProblem
from controlplane.settings import Settings

TIMEOUT = 20.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_ANSWER = 64 * 1024 * 1024


class ApiClient:
    """One server. Each call is one request of at most `timeout` seconds; CallFailed where it fails."""

    def __init__(self, url: str, token: str | None, timeout: float = TIMEOUT):
        self.url = url
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        local = urllib.parse.urlsplit(url).hostname in LOOPBACK
        # A proxy of the environment is not asked for what is on this machine.
        handlers = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, **parameters: Any) -> Any:
        known = {name: value for name, value in parameters.items() if value not in (None, ())}
        question = f"?{urllib.parse.urlencode(known, doseq=True)}" if known else ""
        return self._call("GET", path + question, None, {})

    def post(self, path: str, document: Mapping[str, Any], **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps(document).encode()
        return self._call("POST", path, body, {"Content-Type": "application/json", **named})

    def put(self, path: str, document: Mapping[str, Any]) -> Any:
        body = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 3)
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return self._call("PUT", path, body, headers)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path, None, {})

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        request = urllib.request.Request(
            self.url + path, data=body, headers={**self._headers, **headers}, method=method
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _json(response.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(str(getattr(error, "reason", None) or error)) from None


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _refusal(error: urllib.error.HTTPError) -> RequestRefused:
    try:
        document = _json(error.read(MAX_ANSWER))["error"]
    except (ValueError, KeyError, TypeError, OSError):
        document = {}
    return RequestRefused(error.code, document if isinstance(document, dict) else {})


def open_client(settings: Settings) -> ApiClient:
    return ApiClient(settings.server_url, token_of(settings))


def token_of(settings: Settings) -> str | None:
    """The token to show, or None where there is none; Mistake where the named file cannot be read."""
    if settings.token:
        return settings.token
    if settings.token_file:
        return _read(settings.token_file)
    return _read(settings.admin_token_file) if settings.admin_token_file.exists() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"the token file {path} cannot be read: {getattr(error, 'strerror', error)}"
        ) from None


def click_error(error: CallFailed, client: ApiClient) -> click.ClickException:
    """What the user can do about a failed call."""
    if isinstance(error, Unreachable):
        return UsageProblem(f"no server answers at {client.url} ({error}); start one with: controlplane up")
    assert isinstance(error, RequestRefused)
    if error.status == 401:
        hint = "set CONTROLPLANE_TOKEN or CONTROLPLANE_TOKEN_FILE, or --data-dir where admin.token is"
        return UsageProblem(f"{error}; {hint}")
    return ServerFailed(str(error)) if error.status >= 500 else UsageProblem(str(error))
