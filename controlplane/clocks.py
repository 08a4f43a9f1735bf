"""How far the clocks of the agents are off, and times corrected by it."""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass

#: A clock that differs by less is taken at its word, in seconds.
CLOCK_TOLERANCE = 2.0
RECENT_OFFSETS = 20
MAX_CLOCKS = 10_000


def corrected(at: float, offset: float | None, now: float) -> float:
    """An agent's time by our clock. Nothing was heard in the future: such a time becomes `now`."""
    if offset is not None and abs(offset) > CLOCK_TOLERANCE:
        at += offset
    return max(0.0, now if at > now + CLOCK_TOLERANCE else at)


@dataclass(frozen=True)
class Clock:
    """How far the sender's clock is off, for whichever agent speaks in a request."""

    clocks: Clocks
    offset: float | None

    def of(self, agent: str) -> float | None:
        return None if self.offset is None else self.clocks.smallest(agent, self.offset)


class Clocks:
    """The recent clock offsets of each agent: the smallest had the shortest way, so it is the best."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def note(self, now: float, sent_at: float | None) -> Clock:
        """The clock of one request; `sent_at` that is no time is ignored."""
        sane = sent_at is not None and math.isfinite(sent_at) and sent_at > 0
        return Clock(self, now - sent_at if sane and sent_at is not None else None)

    def smallest(self, agent: str, offset: float) -> float:
        with self._lock:
            if agent not in self._recent and len(self._recent) >= MAX_CLOCKS:
                self._recent.pop(next(iter(self._recent)))
            recent = self._recent.setdefault(agent, deque(maxlen=RECENT_OFFSETS))
            if not recent or recent[-1] != offset:  # once a request, not once a line
                recent.append(offset)
            return min(recent)
