"""HTTP client of the server on the standard library: JSON in, JSON out.

Called by the commands and the demonstration. The token is `CONTROLPLANE_TOKEN`, else the content of
`CONTROLPLANE_TOKEN_FILE`, else `admin.token` of the data directory.
"""

from __future__ import annotations

import gzip
import http.client
import json
import ssl
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
#: The code of a standby's refusal.
STANDBY = "standby"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class ApiClient:
    """Client of one server, or of several that stand in for each other: `url` is then a list separated by commas.

    Where a server does not answer, or is the standby, the next one gets the request; a request that changes something
    is repeated only where the first server cannot have received it. Each request takes at most `timeout` seconds.
    Every call raises CallFailed. `ca_file`: certificates of a private CA; UsageProblem if it cannot be read.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float = TIMEOUT_SECONDS, ca_file: Path | None = None
    ):
        self.url = url
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._addresses = url.split(",")
        local = all(urllib.parse.urlsplit(address).hostname in LOOPBACK for address in self._addresses)
        # Requests to this machine bypass a proxy of the environment.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})] if local else []
        if ca_file and "https:" in url:
            handlers.append(urllib.request.HTTPSHandler(context=_tls_context(ca_file)))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, **parameters: Any) -> Any:
        """GET `path`; parameters that are None or empty are left out. JSON is parsed, HTML is returned as text."""
        given = {name: value for name, value in parameters.items() if value not in (None, ())}
        query = f"?{urllib.parse.urlencode(given, doseq=True)}" if given else ""
        return self._call("GET", path + query, None, {})

    def post(self, path: str, document: Mapping[str, Any], **headers: str) -> Any:
        """POST `document`; `headers` have underscores instead of hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps(document).encode()
        return self._call("POST", path, body, {"Content-Type": "application/json", **named})

    def put(self, path: str, document: Mapping[str, Any], compressed: bool = False) -> Any:
        """PUT `document`, with gzip if `compressed`."""
        body, headers = (
            json.dumps(document, separators=(",", ":")).encode(),
            {"Content-Type": "application/json"},
        )
        if compressed:
            body, headers = gzip.compress(body, 3), {**headers, "Content-Encoding": "gzip"}
        return self._call("PUT", path, body, headers)

    def delete(self, path: str) -> Any:
        """DELETE `path`."""
        return self._call("DELETE", path, None, {})

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        addresses = self._addresses
        for place, address in enumerate(addresses, start=1):
            request = urllib.request.Request(
                address + path, data=body, headers={**self._headers, **headers}, method=method
            )
            try:
                answer = self._ask(request)
            except CallFailed as error:
                if place == len(addresses) or not _may_ask_another(error, method, headers):
                    raise
            else:
                self._addresses = [*addresses[place - 1 :], *addresses[: place - 1]]
                return answer
        raise AssertionError("a client has at least one address")

    def _ask(self, request: urllib.request.Request) -> Any:
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                body = response.read(MAX_RESPONSE_BYTES)
                is_page = response.headers.get_content_type() == "text/html"
                return body.decode() if is_page else _json(body)
        except urllib.error.HTTPError as error:
            with error:
                raise _request_refused(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None)
            refused = isinstance(reason or error, ConnectionRefusedError)
            raise Unreachable(str(reason or error), connected=not refused) from None


def _may_ask_another(error: CallFailed, method: str, headers: Mapping[str, str]) -> bool:
    if isinstance(error, Unreachable):
        return not error.connected or method == "GET" or "Idempotency-Key" in headers
    return isinstance(error, RequestRefused) and error.code == STANDBY


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _request_refused(error: urllib.error.HTTPError) -> RequestRefused:
    try:
        document = _json(error.read(MAX_RESPONSE_BYTES))["error"]
    except (ValueError, KeyError, TypeError, OSError):
        document = {}
    return RequestRefused(error.code, document if isinstance(document, dict) else {})


def _tls_context(ca_file: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        raise UsageProblem(f"{ca_file} is no PEM file with certificates: {error.strerror or error}") from None
    return context


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
