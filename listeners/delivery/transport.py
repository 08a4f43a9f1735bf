"""Send events and command results to the server and poll it for commands, over HTTP with urllib.

`Transport` is the interface that the agent needs; tests have their own. Answers are limited in size and time,
redirects are refused, and each error has `retryable`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from listeners.delivery.deadlines import TimedConnection, TimedTlsConnection
from listeners.protocol import wire
from listeners.protocol.errors import NoAnswer, TooLarge, TransportError, WireError

MAX_ANSWER_BYTES = 1024 * 1024
MAX_COMMANDS = 100


class ServerAcknowledgement(NamedTuple):
    """Events up to `seq` are stored, were stored before, or are rejected for good (`rejected` events; `why`).

    `lines`: (number, reason) of each rejected line; numbers begin at 1.
    """

    seq: int
    rejected: int
    why: str = ""
    lines: Sequence[tuple[int, str]] = ()


class Transport(Protocol):
    """The connection to the server. Every call raises only TransportError."""

    def send(self, lines: Sequence[bytes], timeout: float) -> ServerAcknowledgement:
        """Deliver a batch, one event a line; returns once it is stored."""

    def poll(self, agent: str, wait: float) -> list[wire.Command]:
        """Wait up to `wait` seconds for commands."""

    def answer(self, command_id: str, result: wire.CommandResult) -> None:
        """Deliver a command's result."""


def addresses(url: str) -> list[str]:
    """The addresses in a list separated by commas, without trailing slashes."""
    return [part.strip().rstrip("/") for part in url.split(",") if part.strip()]


def are_same_servers(first: object, second: object) -> bool:
    """Whether two lists of addresses, or two addresses, share an address: servers in one list stand in for each other."""
    return not {*map(normal_url, addresses(str(first)))}.isdisjoint(map(normal_url, addresses(str(second))))


def normal_url(url: object) -> str:
    """A server's URL for comparison: without user, default port, trailing slashes and upper case in the host."""
    try:
        parts = urllib.parse.urlsplit(str(url).strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return str(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{port}{parts.path.rstrip('/')}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None  # a redirect would send the token elsewhere


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(TimedConnection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, tls: ssl.SSLContext):
        super().__init__(context=tls)
        self._tls = tls

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(TimedTlsConnection, request, context=self._tls)


class HttpTransport:
    """HTTP to one server, or to several that stand in for each other: `url` is then a list separated by commas.

    Where a server does not answer, or is not the active one, the next one gets the request at once. Proxies come
    from the environment, as in urllib; `ca_file` adds a private CA.
    """

    def __init__(self, url: str, token: str | None, ca_file: str | None = None, agent: str | None = None):
        """`agent`: the id of the sending agent, which also delivers the events of dead ones."""
        self._addresses = addresses(url) or [url]
        for address in self._addresses:
            if not address.startswith(("http://", "https://")):
                raise TransportError(
                    f"server must be an http:// or https:// URL, not {address[:80]!r}", retryable=False
                )
        #: Index of the server to ask first; all threads share it.
        self._current = 0
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        if agent:
            self._headers["X-Agent"] = agent
        handlers: list[Any] = [_NoRedirect(), _Http()]
        if any(address.startswith("https://") for address in self._addresses):
            handlers.append(_Https(_tls_context(ca_file)))
        self._opener = urllib.request.build_opener(*handlers)

    def send(self, lines: Sequence[bytes], timeout: float = 10.0) -> ServerAcknowledgement:
        """POST a batch (one event a line); returns once the server has committed it."""
        body = _gzipped(lines)
        headers = {
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": "gzip",
            "X-Sent-At": f"{time.time():.3f}",
        }
        answer = self._call("POST", "/api/v1/events", body, headers, timeout)
        if not isinstance(answer, dict) or type(answer.get("acknowledged")) is not int:
            raise TransportError("the server's answer lacks a whole number `acknowledged`")
        rejected = answer.get("rejected")
        if not isinstance(rejected, list) or not rejected:
            return ServerAcknowledgement(answer["acknowledged"], 0)
        rejections = [_parse_rejection(line) for line in rejected]
        return ServerAcknowledgement(answer["acknowledged"], len(rejected), rejections[0][1], rejections)

    def poll(self, agent: str, wait: float) -> list[wire.Command]:
        """Wait up to `wait` seconds for commands; malformed ones are ignored."""
        answer = self._call("GET", f"/api/v1/agents/{agent}/commands?wait={wait:g}", None, {}, wait + 10.0)
        documents = answer.get("commands") if isinstance(answer, dict) else None
        commands = []
        for document in (documents if isinstance(documents, list) else [])[:MAX_COMMANDS]:
            try:
                commands.append(wire.decode_command(document))
            except WireError:
                continue
        return commands

    def answer(self, command_id: str, result: wire.CommandResult) -> None:
        """POST a command's result."""
        body = wire.dumps(wire.encode_result(result)).encode("utf-8", "replace")
        path = "/api/v1/commands/{}/result".format(urllib.parse.quote(command_id, safe=""))
        self._call("POST", path, body, {"Content-Type": "application/json"}, 10.0)

    def preflight(self, document: Mapping[str, Any], timeout: float) -> Any:
        """Ask whether a query would restart from its checkpoint; returns the server's answer unchanged."""
        body = wire.dumps(document).encode("utf-8", "replace")
        return self._call("POST", "/api/v1/preflight", body, {"Content-Type": "application/json"}, timeout)

    def _call(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: float
    ) -> Any:
        """Ask the servers in turn, each at most once and within `timeout` seconds in all."""
        until, first, failure = time.monotonic() + timeout, self._current, None
        for index in [*range(first, len(self._addresses)), *range(first)]:
            left = until - time.monotonic()
            if failure is not None and left <= 0:
                break
            request = urllib.request.Request(
                self._addresses[index] + path,
                data=body,
                headers=dict(self._headers, **headers),
                method=method,
            )
            try:
                answer = self._ask(request, self._addresses[index], left)
            except TransportError as error:
                if not _asks_elsewhere(error):
                    raise
                # The answer of a standby has a Retry-After, which a server that does not answer cannot give.
                failure = error if failure is None or error.retry_after is not None else failure
                self._current = (index + 1) % len(self._addresses)
            else:
                self._current = index
                return answer
        assert failure is not None
        raise failure

    def _ask(self, request: urllib.request.Request, address: str, timeout: float) -> Any:
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return _parse(response.read(MAX_ANSWER_BYTES + 1))
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except OSError as error:  # URLError is one
            raise NoAnswer(f"no answer from {address}: {error}") from None
        except Exception as error:  # http.client.HTTPException, ValueError
            raise TransportError(f"broken answer from {address}: {error!r}") from None


def _asks_elsewhere(error: TransportError) -> bool:
    """Whether another server may answer: this one gave no answer or a broken one, or it is not the active one."""
    return error.status is None or error.status in (502, 503, 504)


def _gzipped(lines: Sequence[bytes]) -> bytes:
    """Compress line by line, so that the batch is not held in memory twice."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    pieces = [packer.compress(line + b"\n") for line in lines]
    return b"".join(pieces) + packer.flush()


def _parse_rejection(rejections: Any) -> tuple[int, str]:
    """A rejected line's number, 0 if the server does not name it, and the reason."""
    document = rejections if isinstance(rejections, dict) else {}
    line = document.get("line")
    return line if type(line) is int else 0, str(document.get("error"))[:300]


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """The system's certificates plus a private CA."""
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise TransportError(
                f"CONTROLPLANE_CA_FILE={ca_file} is not a PEM file with certificates: {error}",
                retryable=False,
            ) from None
    return context


def _parse(body: bytes) -> Any:
    if len(body) > MAX_ANSWER_BYTES:
        raise TransportError("the server's answer is larger than 1 MiB")
    if not body:
        return None
    return json.loads(body.decode("utf-8"))


def _refusal(error: urllib.error.HTTPError) -> TransportError:
    status = error.code
    message = "the server answered %d: %s" % (status, _message_of(error))
    if status == 413:
        return TooLarge(message, status=status)
    # 401, 403, 404: a wrong token or address can still be fixed, so the events are kept.
    retryable = status >= 500 or status in (401, 403, 404, 408, 429) or 300 <= status < 400
    return TransportError(message, retryable=retryable, retry_after=_retry_after(error), status=status)


def _message_of(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096).decode("utf-8"))["error"]["message"])[:300]
    except Exception:
        return str(error.reason)[:300]


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    try:
        return min(300.0, max(0.0, float(error.headers.get("Retry-After", ""))))
    except (TypeError, ValueError):
        return None
