"""A background thread that runs jobs in order; a newer job replaces a queued one of the same key.

The queue is bounded in number and weight. `put` refuses a job that does not fit and never blocks.
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
class _QueuedJob:
    job: Job
    weight: int


class CoalescingQueue:
    """A queue with one worker thread, between `start` and `stop`. `stop` drops the queued jobs.

    max_weight: the sum of the weights of the queued jobs, in units of the caller (bytes here).
    """

    def __init__(self, name: str, max_jobs: int, max_weight: int):
        self._name, self._max_jobs, self._max_weight = name, max_jobs, max_weight
        self._changed = threading.Condition()
        self._queued: OrderedDict[Hashable, _QueuedJob] = OrderedDict()
        self._weight = 0
        self._running = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the worker thread."""
        self._running = True
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Drop the queued jobs and wait up to `timeout` seconds for the running one."""
        with self._changed:
            self._running = False
            self._queued.clear()
            self._weight = 0
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)

    def put(self, key: Hashable, job: Job, weight: int = 0) -> bool:
        """Queue a job in place of one of the same key. Returns False where it does not fit or the queue is stopped.

        An older job of that key then stays queued.
        """
        with self._changed:
            before = self._queued.get(key)
            others = len(self._queued) - (before is not None)
            weight_after = self._weight - (before.weight if before else 0) + weight
            if others >= self._max_jobs or weight_after > self._max_weight or not self._running:
                return False
            self._queued.pop(key, None)
            self._queued[key] = _QueuedJob(job, weight)
            self._weight = weight_after
            self._changed.notify()
            return True

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            try:
                taken.job()
            except Exception:
                log.exception("a job of the queue %s failed", self._name)

    def _next(self) -> _QueuedJob | None:
        with self._changed:
            while self._running and not self._queued:
                self._changed.wait()
            if not self._running:
                return None
            _, taken = self._queued.popitem(last=False)
            self._weight -= taken.weight
            return taken
