"""How long to wait before trying a server again."""

from __future__ import annotations

import random


class Backoff:
    """Doubling waits with jitter, between `min_seconds` and `max_seconds` seconds."""

    def __init__(self, min_seconds: float = 0.5, max_seconds: float = 30.0):
        self._min_seconds, self._max_seconds, self._next = min_seconds, max_seconds, min_seconds

    def next(self, retry_after: float | None = None) -> float:
        """Seconds to wait now; what the server asked for counts, if it asked, and a little more.

        A server asks all its agents for the same: they must not come back in the same moment.
        """
        wait = self._next
        self._next = min(self._max_seconds, self._next * 2)
        if retry_after is None:
            return random.uniform(wait / 2, wait)
        return retry_after + random.uniform(self._min_seconds / 2, max(self._min_seconds, retry_after / 4))

    def reset(self) -> None:
        self._next = self._min_seconds
