"""Exponential backoff with jitter for requests to the server."""

from __future__ import annotations

import random


class Backoff:
    """Doubles the delay after each attempt, with jitter, between `min_seconds` and `max_seconds`."""

    def __init__(self, min_seconds: float = 0.5, max_seconds: float = 30.0):
        self._min_seconds, self._max_seconds, self._next = min_seconds, max_seconds, min_seconds

    def next(self, retry_after: float | None = None) -> float:
        """Seconds to wait now. A server's `retry_after` takes precedence, with some jitter added.

        A server sends the same value to all its agents, and they must not all come back at the same moment.
        """
        wait = self._next
        self._next = min(self._max_seconds, self._next * 2)
        if retry_after is None:
            return random.uniform(wait / 2, wait)
        return retry_after + random.uniform(self._min_seconds / 2, max(self._min_seconds, retry_after / 4))

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._next = self._min_seconds
