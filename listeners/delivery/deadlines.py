"""HTTP connections whose timeout covers the whole exchange, not each read.

With a timeout per read, a server that sends one byte a second would block a thread forever. Used by
`listeners.delivery.transport`.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any


class _Timed(io.RawIOBase):
    """Reads a socket until a deadline of the monotonic clock."""

    def __init__(self, raw: Any, sock: socket.socket, until: float):
        self._raw, self._sock, self._until = raw, sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._until))
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer took too long")
    return left


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, until: float, **kwargs: Any):
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, until))


class TimedConnection(http.client.HTTPConnection):
    """HTTP with `timeout` seconds from now until the last byte of the answer."""

    def __init__(self, host: str, *args: Any, **kwargs: Any):
        super().__init__(host, *args, **kwargs)
        seconds = self.timeout
        self._until = time.monotonic() + (60.0 if seconds is None else seconds)
        self.response_class = self._answer  # type: ignore[assignment]

    def _answer(self, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        return _TimedResponse(sock, *args, until=self._until, **kwargs)

    def send(self, data: Any) -> None:
        """Send within the remaining time."""
        if self.sock is not None:
            self.sock.settimeout(_left(self._until))
        super().send(data)


class TimedTlsConnection(TimedConnection, http.client.HTTPSConnection):
    """HTTPS with the same timeout."""
