"""How long to wait before trying a server again."""

from __future__ import annotations

import random


class Backoff:
    """Doubling waits with jitter, between `least` and `most` seconds."""

    def __init__(self, least: float = 0.5, most: float = 30.0):
        self._least, self._most, self._next = least, most, least

    def next(self, asked: float | None = None) -> float:
        """Seconds to wait now; what the server asked for counts, if it asked, and a little more.

        A server asks all its agents for the same: they must not come back in the same moment.
        """
        wait = self._next
        self._next = min(self._most, self._next * 2)
        if asked is None:
            return random.uniform(wait / 2, wait)
        return asked + random.uniform(self._least / 2, max(self._least, asked / 4))

    def reset(self) -> None:
        self._next = self._least
