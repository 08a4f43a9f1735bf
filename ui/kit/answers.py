"""Answers of the server: their bodies, their errors, and the last good ones.

ClientError              the message is one sentence for the person at the screen
├── ServerUnreachable    no connection, a timeout, or 5xx: a later retry helps
├── TokenRefused         401 or 403: another token is needed
├── ServerNotFound       404: the server does not have it
└── ServerRefused        any other 4xx; `code` and `action` give the reason
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx


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


def body_of(answer: httpx.Response) -> dict[str, Any]:
    """The JSON of a successful answer, or `html`; any other is raised as a `ClientError`."""
    is_page = answer.headers.get("content-type", "").startswith("text/html")
    body = {"html": answer.text} if is_page else json_of(answer)
    if answer.is_success and isinstance(body, dict):
        return body
    raise _error(answer.status_code, body)


def json_of(answer: httpx.Response) -> Any:
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


@dataclass(frozen=True)
class CachedRead:
    """An answer of the server and when it was read (Unix seconds).

    `body` is None if there never was an answer; `error` is the reason why there is no newer one.
    """

    body: dict[str, Any] | None
    at: float
    error: str | None = None
    kind: str = ""  # "unreachable" | "refused" | "token" | "missing" | "log-in" if there is an error

    @property
    def stale(self) -> bool:
        """Is this an older answer, because the newest request failed?"""
        return self.error is not None and self.body is not None


class LastGoodAnswers:
    """The newest good answer to each request, at most `size` of them; shared by all sessions."""

    def __init__(self, size: int = 256):
        self._size = size
        self._answers: OrderedDict[tuple[Any, ...], CachedRead] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, request: tuple[Any, ...], reading: CachedRead) -> CachedRead:
        """Store and return a good reading; for a failed one return the last good answer with its error."""
        with self._lock:
            if reading.error is None:
                self._answers[request] = reading
                self._answers.move_to_end(request)
                while len(self._answers) > self._size:
                    self._answers.popitem(last=False)
                return reading
            last = self._answers.get(request)
        if last is None or reading.kind != "unreachable":  # never show what is gone or forbidden now
            return reading
        return CachedRead(last.body, last.at, reading.error, reading.kind)
