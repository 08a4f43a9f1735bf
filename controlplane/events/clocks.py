"""Clock offsets of the agents, and times corrected by them.

Used by `controlplane.ingest.service` for every request: an agent sends the time of its own clock.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, field

#: A clock that differs by less is not corrected.
CLOCK_TOLERANCE_SECONDS = 2.0
RECENT_OFFSETS = 20
#: A request may take this long. A clock that seems to be behind by less may be right: the offset is used once all
#: recent requests agree. A larger one is believed at once.
MAX_DELAY_SECONDS = 60.0
MAX_CLOCKS = 10_000


def corrected(at: float, offset: float | None, now: float) -> float:
    """An agent's time by the server's clock. A time in the future becomes `now`."""
    if offset is not None and abs(offset) > CLOCK_TOLERANCE_SECONDS:
        at += offset
    return max(0.0, now if at > now + CLOCK_TOLERANCE_SECONDS else at)


@dataclass(frozen=True)
class SenderClock:
    """The clock offsets of one request, by agent."""

    clocks: AgentClocks
    offset: float | None
    found: dict[str, float] = field(
        default_factory=dict, compare=False
    )  # computed once a request, not once a line

    def of(self, agent: str) -> float | None:
        """The agent's offset in seconds, to be added to its times; None if the sender's clock is unknown."""
        if self.offset is None:
            return None
        if agent not in self.found:
            self.found[agent] = self.clocks.smallest(agent, self.offset)
        return self.found[agent]

    def received(self, at: float, now: float) -> float | None:
        """When an event written at `at` would have been received if sent at once; never after `now`.

        Computed from this request alone: a heartbeat shows that its agent was alive at that time even if its
        clock was changed since, and one that was spooled for an hour shows that the agent was alive an hour
        ago.
        """
        return None if self.offset is None else max(0.0, min(now, at + self.offset))


class AgentClocks:
    """The recent clock offsets of each agent. The smallest had the shortest network delay, so it is the best."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def note(self, now: float, sent_at: float | None) -> SenderClock:
        """The clock of one request. A `sent_at` that is not a time is ignored."""
        sane = sent_at is not None and math.isfinite(sent_at) and sent_at > 0
        return SenderClock(self, now - sent_at if sane and sent_at is not None else None)

    def smallest(self, agent: str, offset: float) -> float:
        """Record an offset and return the agent's smallest recent one, in seconds.

        An offset that decreases gives later events earlier times, so a delay must not pass for a clock.
        """
        with self._lock:
            if agent not in self._recent and len(self._recent) >= MAX_CLOCKS:
                self._recent.pop(next(iter(self._recent)))
            recent = self._recent.setdefault(agent, deque([0.0], maxlen=RECENT_OFFSETS))
            if offset - min(recent) > MAX_DELAY_SECONDS:
                recent.clear()
            recent.append(offset)
            return min(recent)
