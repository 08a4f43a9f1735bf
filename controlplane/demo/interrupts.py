"""Ctrl-C and its relatives, counted: once is a wish to stop, again means at once.

Called by `controlplane.demo.fleet`, which has children to end in order before it may end itself.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any


@dataclass
class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP are counted instead of acted on."""

    count: int = 0
    _former: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._former[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def wait(self, seconds: float) -> bool:
        """Sleep; True as soon as somebody asked us to stop. In naps: a signal does not end a sleep."""
        end = time.monotonic() + seconds
        while not self.count and (left := end - time.monotonic()) > 0:
            time.sleep(min(0.2, left))
        return bool(self.count)
