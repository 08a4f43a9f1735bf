"""Webhook receiver, compatible with Alertmanager's payload version 4.

Uses the standard library: follows no redirects, uses no proxy, reads a bounded response, and has a deadline for
the whole exchange. 5xx and network errors are retryable; most other statuses are not. Connections to link-local
addresses, where clouds serve instance credentials, are refused.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from alerts.errors import ReceiverError
from alerts.notify.message import Message
from alerts.state import Alert, AlertState

MAX_RESPONSE_BYTES = 4096
#: 4xx statuses worth a retry: request timeout, too early, too many requests.
RETRYABLE_STATUSES = frozenset({408, 425, 429})
_UNSET = "0001-01-01T00:00:00Z"


def payload(message: Message, max_alerts: int = 0) -> dict[str, Any]:
    """The JSON payload of a message with at most `max_alerts` alerts (0: all); `truncatedAlerts` counts the rest."""
    sent = message.alerts[:max_alerts] if max_alerts else message.alerts
    return {
        "receiver": message.receiver,
        "status": message.status,
        "alerts": [_alert(alert, message) for alert in sent],
        "groupLabels": dict(message.group_labels),
        "commonLabels": message.common_labels,
        "commonAnnotations": message.common_annotations,
        "externalURL": message.external_url,
        "version": "4",
        "groupKey": message.group_key,
        "truncatedAlerts": len(message.alerts) - len(sent),
        "notification_reason": message.reason.value,
    }


def _alert(alert: Alert, message: Message) -> dict[str, Any]:
    over = alert.state is AlertState.RESOLVED
    return {
        "status": "resolved" if over else "firing",
        "labels": dict(sorted(alert.labels.items())),
        "annotations": dict(sorted(alert.annotations.items())),
        "startsAt": _time(alert.fired_at),
        "endsAt": _time(alert.resolved_at) if over else _UNSET,
        "generatorURL": message.generator_urls.get(alert.fingerprint, ""),
        "fingerprint": alert.fingerprint,
    }


def _time(at: float | None) -> str:
    """RFC 3339 with milliseconds, as Go writes it: no trailing zeros."""
    if at is None:
        return _UNSET
    moment = datetime.fromtimestamp(round(at, 3), UTC)
    fraction = f".{moment.microsecond // 1000:03d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, repr=False)
class Webhook:
    """A webhook URL. `timeout`: seconds for the whole exchange. `headers` may contain secrets and is never shown."""

    name: str
    url: str
    sends_resolved: bool = True
    max_alerts: int = 0
    timeout: float = 10.0
    headers: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return f"Webhook({self.name!r}, {redacted_url(self.url)!r})"

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError without a 2xx status."""
        body = json.dumps(payload(message, self.max_alerts), ensure_ascii=False, allow_nan=False).encode(
            errors="replace"
        )
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "spark-controlplane",
            "Connection": "close",
        }
        status, answer = post(self.url, body, {**headers, **(self.headers or {})}, self.timeout)
        if 200 <= status < 300:
            return
        detail = answer.decode("utf-8", "replace").strip()[:200]
        reason = f"{redacted_url(self.url)} answered {status}" + (f": {detail}" if detail else "")
        raise ReceiverError(reason, retryable=status >= 500 or status in RETRYABLE_STATUSES, status=status)


def redacted_url(url: str) -> str:
    """A URL for logs: scheme and host only; path, query and user may be secrets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "") + "/…"


def address_problem(url: str) -> str | None:
    """Why a webhook URL is invalid; None if it is valid."""
    if any(ord(char) <= 32 or ord(char) == 127 for char in url):
        return "a URL must not contain spaces or control characters"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"invalid URL ({error})"
    if parts.scheme not in ("http", "https"):
        return "a URL must begin with http:// or https://"
    return None if parts.hostname else "a URL must have a host"


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
    """POST and return the status and first bytes of the response. Raises ReceiverError without a response."""
    if problem := address_problem(url):
        raise ReceiverError(problem, retryable=False)
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(parts, timeout)
    try:
        connection.connect()
        with _cut_after(timeout, connection.sock):
            connection.request("POST", target, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, _first_bytes(answer)
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        cause = str(error) or type(error).__name__
        raise ReceiverError(
            f"{redacted_url(url)} could not be reached: {cause[:200]}", retryable=True
        ) from None
    finally:
        connection.close()


def _connection(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        return _CheckedTls(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    return _Checked(host, parts.port, timeout=timeout)


class _Checked(http.client.HTTPConnection):
    """Connects to the address that was checked: a second name resolution could return another."""

    def connect(self) -> None:
        self.sock = connect_checked(self.host, self.port, self.timeout)


class _CheckedTls(http.client.HTTPSConnection):
    def connect(self) -> None:
        plain = connect_checked(self.host, self.port, self.timeout)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # type: ignore[attr-defined]


def connect_checked(host: str, port: int, timeout: float | None) -> socket.socket:
    """Connect to the host's first permitted address that answers. Raises OSError where there is none."""
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if is_forbidden(str(address[0])):
            problem = OSError(f"{host} resolves to {address[0]}, which is not permitted")
            continue
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout)
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise problem


def is_forbidden(address: str) -> bool:
    """Whether an address is link-local, multicast or unspecified. Private addresses are permitted."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_link_local or ip.is_multicast or ip.is_unspecified


@contextlib.contextmanager
def _cut_after(seconds: float, sock: socket.socket) -> Iterator[None]:
    """Shut the socket down after `seconds`: a socket timeout alone restarts with every received byte."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # beneath TLS, which another thread is reading

    watch = threading.Timer(seconds, cut)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _first_bytes(answer: http.client.HTTPResponse) -> bytes:
    """The start of the response body; a truncated body is no failure, since the status is known."""
    found = b""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while len(found) < MAX_RESPONSE_BYTES and (piece := answer.read1(MAX_RESPONSE_BYTES - len(found))):
            found += piece
    return found
