"""Whose turn it is to start: few cores cannot start many drivers at once and still show figures soon.

Pure; `controlplane.demo.watch` asks once a round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controlplane.demo.scenarios import Driver

#: A driver that shows nothing for so long does not keep the others waiting.
MAX_WAIT_SECONDS = 25.0


class StartOrder:
    """The drivers in their order. Times are seconds since the beginning."""

    def __init__(self, drivers: Sequence[Driver]):
        self._waiting = list(drivers)
        self._last: Driver | None = None
        self._since = 0.0

    @property
    def over(self) -> bool:
        """Whether all were let go."""
        return not self._waiting

    def next(self, now: float, live_apps: Collection[str]) -> Driver | None:
        """The driver to start now: the first at once, each other when the one before it shows figures."""
        patient = now - self._since < MAX_WAIT_SECONDS
        if self.over or (self._last is not None and self._last.app not in live_apps and patient):
            return None
        self._last, self._since = self._waiting.pop(0), now
        return self._last
