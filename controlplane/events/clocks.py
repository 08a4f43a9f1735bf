"""How far the clocks of the agents are off, and times corrected by it.

Called by `controlplane.ingest.service` for every request: an agent says when it sent, by its own clock.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, field

#: A clock that differs by less is taken at its word, in seconds.
CLOCK_TOLERANCE_SECONDS = 2.0
RECENT_OFFSETS = 20
#: A clock was set back when two requests in a row are so many seconds behind the best one known, or one
#: is by more than any way can take. Until that is seen, what its agent tells would seem long past.
SET_BACK_SECONDS, MAX_DELAY_SECONDS = 5.0, 60.0
MAX_CLOCKS = 10_000


def corrected(at: float, offset: float | None, now: float) -> float:
    """An agent's time by our clock. Nothing was heard in the future: such a time becomes `now`."""
    if offset is not None and abs(offset) > CLOCK_TOLERANCE_SECONDS:
        at += offset
    return max(0.0, now if at > now + CLOCK_TOLERANCE_SECONDS else at)


@dataclass(frozen=True)
class SenderClock:
    """How far the sender's clock is off, for whichever agent speaks in a request."""

    clocks: AgentClocks
    offset: float | None
    found: dict[str, float] = field(default_factory=dict, compare=False)  # once a request, not once a line

    def of(self, agent: str) -> float | None:
        if self.offset is None:
            return None
        if agent not in self.found:
            self.found[agent] = self.clocks.smallest(agent, self.offset)
        return self.found[agent]

    def received(self, at: float, now: float) -> float | None:
        """When we received what the sender wrote down at `at`, had it been sent at once; never after `now`.

        From this request alone: a beat says that its agent lives, whatever became of its clock, and one that
        lay in a spool for an hour says that it lived an hour ago.
        """
        return None if self.offset is None else max(0.0, min(now, at + self.offset))


class AgentClocks:
    """The recent clock offsets of each agent: the smallest had the shortest way, so it is the best."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def note(self, now: float, sent_at: float | None) -> SenderClock:
        """The clock of one request; `sent_at` that is no time is ignored."""
        sane = sent_at is not None and math.isfinite(sent_at) and sent_at > 0
        return SenderClock(self, now - sent_at if sane and sent_at is not None else None)

    def smallest(self, agent: str, offset: float) -> float:
        with self._lock:
            if agent not in self._recent and len(self._recent) >= MAX_CLOCKS:
                self._recent.pop(next(iter(self._recent)))
            recent = self._recent.setdefault(agent, deque(maxlen=RECENT_OFFSETS))
            recent.append(offset)
            best = min(recent)
            if offset - best > MAX_DELAY_SECONDS:
                _forget(recent, but=1)
            elif len(recent) > 1 and min(recent[-1], recent[-2]) - best > SET_BACK_SECONDS:
                _forget(recent, but=2)
            return min(recent)


def _forget(recent: deque[float], but: int) -> None:
    while len(recent) > but:
        recent.popleft()
