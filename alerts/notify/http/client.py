"""HTTP client of receivers: one request, bounded in time and size, with the settings of `http_config`.

Uses the standard library: has a deadline for the whole exchange and reads a bounded response. Follows only redirects
that keep method and body (307, 308), to the same host with credentials and to others without. 5xx and network errors
are retryable; most other statuses are not.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from alerts.errors import ReceiverError
from alerts.notify.http.connections import ProxySettings, cut_after, open_connection
from alerts.notify.http.fields import address_problem

MAX_RESPONSE_BYTES = 65_536
MAX_REDIRECTS = 5
#: Longest wait that a `Retry-After` header can impose.
MAX_RETRY_AFTER_SECONDS = 3600.0
#: 4xx statuses worth a retry: request timeout, too early, too many requests.
RETRYABLE_STATUSES = frozenset({408, 425, 429})
_REDIRECTS = frozenset({307, 308})


@dataclass(frozen=True)
class HttpResponse:
    """Status, headers in lower case, and the first bytes of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, repr=False)
class HttpClient:
    """Sends requests. `headers` may contain secrets. `timeout`: seconds for a whole exchange."""

    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 10.0
    follow_redirects: bool = True
    proxy: ProxySettings = field(default_factory=ProxySettings)
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    server_name: str = ""
    max_response_bytes: int = MAX_RESPONSE_BYTES

    def with_timeout(self, timeout: float) -> HttpClient:
        """The same client with another deadline."""
        return replace(self, timeout=timeout)

    def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """The response, whatever its status. Raises ReceiverError without one."""
        given = {"User-Agent": "spark-controlplane", "Connection": "close", **self.headers, **(headers or {})}
        for _ in range(MAX_REDIRECTS):
            response = self._exchange(method, url, body, given)
            target = response.headers.get("location", "")
            if not (self.follow_redirects and response.status in _REDIRECTS and target):
                return response
            given, url = _redirected(given, url, urljoin(url, target)), urljoin(url, target)
        raise ReceiverError(f"{redacted_url(url)}: more than {MAX_REDIRECTS} redirects", retryable=False)

    def _exchange(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        if problem := address_problem(url):
            raise ReceiverError(problem, retryable=False)
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        target = f"{parts.scheme}://{_host(parts)}{path}" if self._is_forwarded(parts) else path
        late: threading.Event | None = None
        with contextlib.ExitStack() as stack:
            try:
                connection, extra = open_connection(
                    parts, self.timeout, self.tls, self.server_name, self.proxy
                )
                stack.callback(connection.close)
                connection.connect()
                sock = connection.sock  # the connection gives it away with the response
                late = stack.enter_context(cut_after(self.timeout, lambda: sock))
                sent = {"Host": _host(parts), **_basic_of(parts), **headers, **extra}
                connection.request(method, target, body or None, sent)
                answer = connection.getresponse()
                known = {name.lower(): value for name, value in answer.getheaders()}
                return HttpResponse(answer.status, known, _first_bytes(answer, self.max_response_bytes))
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                cause = f"could not be reached: {(str(error) or type(error).__name__)[:200]}"
                if isinstance(error, TimeoutError) or (late is not None and late.is_set()):
                    cause = f"did not answer within {self.timeout:g} s"
                raise ReceiverError(f"{redacted_url(url)} {cause}", retryable=True) from None
            except ValueError:  # its text contains the value, which may be a secret
                raise ReceiverError("invalid header or URL", retryable=False) from None

    def _is_forwarded(self, parts: SplitResult) -> bool:
        return parts.scheme == "http" and self.proxy.proxy_of(parts) is not None

    def send(
        self, url: str, document: Any, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> HttpResponse:
        """Send a JSON document. Raises ReceiverError without a 2xx status."""
        body = b"" if document is None else encoded(document)
        given = {"Content-Type": "application/json", **(headers or {})}
        return checked(url, self.request(method, url, body, given))


def encoded(document: Any) -> bytes:
    """JSON in UTF-8; lone surrogates are replaced."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode(errors="replace")


def checked(url: str, response: HttpResponse) -> HttpResponse:
    """The response, if its status is 2xx. Raises ReceiverError otherwise."""
    if 200 <= response.status < 300:
        return response
    detail = response.body.decode("utf-8", "replace").strip()[:200]
    reason = f"{redacted_url(url)} answered {response.status}" + (f": {detail}" if detail else "")
    retryable = response.status >= 500 or response.status in RETRYABLE_STATUSES
    raise ReceiverError(reason, retryable, response.status, retry_after(response) if retryable else None)


def retry_after(response: HttpResponse) -> float | None:
    """Seconds that `Retry-After` asks to wait, from a number or a date."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS) if seconds == seconds else None


def redacted_url(url: str) -> str:
    """A URL for logs: scheme and host only; path, query and user may be secrets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "") + "/…"


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _basic_of(parts: SplitResult) -> dict[str, str]:
    """User and password of a URL, as header."""
    if parts.username is None:
        return {}
    return {"Authorization": basic_authorization(parts.username, parts.password or "")}


def basic_authorization(username: str, password: str) -> str:
    """The value of the header `Authorization` of HTTP Basic."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _redirected(headers: Mapping[str, str], origin: str, target: str) -> dict[str, str]:
    """Headers for a redirect; another host gets no credentials."""
    before, after = urlsplit(origin), urlsplit(target)
    if (before.scheme, before.netloc) == (after.scheme, after.netloc):
        return dict(headers)
    safe = ("content-type", "user-agent", "connection")
    return {name: value for name, value in headers.items() if name.lower() in safe}


def _first_bytes(answer: http.client.HTTPResponse, limit: int) -> bytes:
    """The start of the response body; a truncated body is no failure, since the status is known."""
    found = b""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while len(found) < limit and (piece := answer.read1(limit - len(found))):
            found += piece
    return found
