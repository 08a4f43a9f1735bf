"""Readiness probe, cached for a second: it needs no token and each check costs a durable write.

Called by `controlplane.api.routes.ops`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FRESH_SECONDS = 1.0


class Readiness:
    """Cache of the last check. While a thread checks, the others get the last answer; only the first check blocks."""

    def __init__(self, check: Callable[[], list[str]], clock: Callable[[], float] = time.monotonic):
        self._check = check
        self._clock = clock
        self._lock = threading.Lock()
        self._answer: list[str] | None = None
        self._checked_at = float("-inf")

    def problems(self) -> list[str]:
        """Why the server is not ready; empty when it is ready."""
        known = self._answer
        if self._lock.acquire(blocking=known is None):
            try:
                if self._answer is None or self._clock() - self._checked_at >= FRESH_SECONDS:
                    self._answer = self._check()
                    self._checked_at = self._clock()
                known = self._answer
            finally:
                self._lock.release()
        return known if known is not None else []
