"""A thread that does jobs one after the other, off the threads that ask; of one key only the newest job is done.

What waits is bounded in number and weight; what does not fit is refused, never waited for.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

log = logging.getLogger(__name__)
Job = Callable[[], None]


@dataclass(frozen=True)
class _Waiting:
    job: Job
    weight: int


class CoalescingQueue:
    """`start` before use, `stop` after: then nothing more is taken, and what waits is dropped."""

    def __init__(self, name: str, most: int, heaviest: int):
        self._name, self._most, self._heaviest = name, most, heaviest
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, _Waiting] = OrderedDict()
        self._weight = 0
        self._running = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._running = True
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        with self._changed:
            self._running = False
            self._waiting.clear()
            self._weight = 0
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)

    def put(self, key: Hashable, job: Job, weight: int = 0) -> bool:
        """Have a job done in its turn, in place of one of the same key; False where there is no room for it.

        Then one of the same key that waits already stays.
        """
        with self._changed:
            before = self._waiting.get(key)
            others = len(self._waiting) - (before is not None)
            weighs = self._weight - (before.weight if before else 0) + weight
            if others >= self._most or weighs > self._heaviest or not self._running:
                return False
            self._waiting.pop(key, None)
            self._waiting[key] = _Waiting(job, weight)
            self._weight = weighs
            self._changed.notify()
            return True

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            try:
                taken.job()
            except Exception:
                log.exception("a job of %s failed", self._name)

    def _next(self) -> _Waiting | None:
        with self._changed:
            while self._running and not self._waiting:
                self._changed.wait()
            if not self._running:
                return None
            _, taken = self._waiting.popitem(last=False)
            self._weight -= taken.weight
            return taken
