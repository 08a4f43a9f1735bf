"""Readiness, asked of the plane at most once a second: anybody may ask, and an answer costs a durable write.

Called by `controlplane.api.routes.ops`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FRESH_SECONDS = 1.0


class Readiness:
    """Keeps the last answer. While one thread asks, the others are given it, and wait only for the first."""

    def __init__(self, ask: Callable[[], list[str]], clock: Callable[[], float] = time.monotonic):
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._answer: list[str] | None = None
        self._asked_at = float("-inf")

    def troubles(self) -> list[str]:
        """Why the server is not ready; empty when it is."""
        known = self._answer
        if self._lock.acquire(blocking=known is None):
            try:
                if self._answer is None or self._clock() - self._asked_at >= FRESH_SECONDS:
                    self._answer = self._ask()
                    self._asked_at = self._clock()
                known = self._answer
            finally:
                self._lock.release()
        return known if known is not None else []
