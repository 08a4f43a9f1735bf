"""Start order of the drivers: one after another, since a few cores cannot start many at once.

Pure; `controlplane.demo.watch` calls it once a round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controlplane.demo.scenarios import Driver

#: The next driver starts after this time even if the one before has reported no batch.
MAX_WAIT_SECONDS = 25.0


class StartOrder:
    """The drivers in order. Times are seconds since the demo began."""

    def __init__(self, drivers: Sequence[Driver]):
        self._waiting = list(drivers)
        self._last: Driver | None = None
        self._since = 0.0

    @property
    def over(self) -> bool:
        """Whether all drivers were started."""
        return not self._waiting

    def next(self, now: float, live_apps: Collection[str]) -> Driver | None:
        """The driver to start now: the first at once, each other when its predecessor has reported a batch."""
        waiting = now - self._since < MAX_WAIT_SECONDS
        if self.over or (self._last is not None and self._last.app not in live_apps and waiting):
            return None
        self._last, self._since = self._waiting.pop(0), now
        return self._last
