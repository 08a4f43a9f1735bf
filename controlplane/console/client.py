"""HTTP client of the server on the standard library: JSON in, JSON out.

Called by the commands and the demonstration. The token is `CONTROLPLANE_TOKEN`, else the content of
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

TIMEOUT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class ApiClient:
    """Client of one server. Each call is one request of at most `timeout` seconds; it raises CallFailed."""

    def __init__(self, url: str, token: str | None, timeout: float = TIMEOUT_SECONDS):
        self.url = url
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        local = urllib.parse.urlsplit(url).hostname in LOOPBACK
        # Requests to this machine bypass a proxy of the environment.
        handlers = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, **parameters: Any) -> Any:
        """GET `path`; parameters that are None or empty are left out."""
        given = {name: value for name, value in parameters.items() if value not in (None, ())}
        query = f"?{urllib.parse.urlencode(given, doseq=True)}" if given else ""
        return self._call("GET", path + query, None, {})

    def post(self, path: str, document: Mapping[str, Any], **headers: str) -> Any:
        """POST `document`; `headers` have underscores instead of hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps(document).encode()
        return self._call("POST", path, body, {"Content-Type": "application/json", **named})

    def put(self, path: str, document: Mapping[str, Any]) -> Any:
        """PUT `document`, compressed with gzip."""
        body = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 3)
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return self._call("PUT", path, body, headers)

    def delete(self, path: str) -> Any:
        """DELETE `path`."""
        return self._call("DELETE", path, None, {})

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        request = urllib.request.Request(
            self.url + path, data=body, headers={**self._headers, **headers}, method=method
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _json(response.read(MAX_RESPONSE_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise _request_refused(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(str(getattr(error, "reason", None) or error)) from None


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _request_refused(error: urllib.error.HTTPError) -> RequestRefused:
    try:
        document = _json(error.read(MAX_RESPONSE_BYTES))["error"]
    except (ValueError, KeyError, TypeError, OSError):
        document = {}
    return RequestRefused(error.code, document if isinstance(document, dict) else {})


def open_client(settings: Settings) -> ApiClient:
    """A client for the configured server and token."""
    return ApiClient(settings.server_url, token_of(settings))


def token_of(settings: Settings) -> str | None:
    """The configured token or None; UsageProblem where the named file cannot be read."""
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
            f"cannot read the token file {path}: {getattr(error, 'strerror', error)}"
        ) from None


def click_error(error: CallFailed, client: ApiClient) -> click.ClickException:
    """The error to show for a failed call, with what the user can do."""
    if isinstance(error, Unreachable):
        return UsageProblem(f"no server answers at {client.url} ({error}); start one with: controlplane up")
    assert isinstance(error, RequestRefused)
    if error.status == 401:
        hint = (
            "set CONTROLPLANE_TOKEN or CONTROLPLANE_TOKEN_FILE, or give the --data-dir that holds admin.token"
        )
        return UsageProblem(f"{error}; {hint}")
    return ServerFailed(str(error)) if error.status >= 500 else UsageProblem(str(error))
