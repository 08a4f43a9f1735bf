"""Counter of SIGINT, SIGTERM and SIGHUP: the first requests a stop, the second an immediate one.

Used by `controlplane.demo.fleet`, which stops its children before it ends itself.
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
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def wait(self, seconds: float) -> bool:
        """Sleep at most `seconds`; True as soon as a stop was requested. A signal does not end `time.sleep`."""
        end = time.monotonic() + seconds
        while not self.count and (left := end - time.monotonic()) > 0:
            time.sleep(min(0.2, left))
        return bool(self.count)
