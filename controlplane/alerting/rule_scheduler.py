"""Rule scheduler: a thread that scrapes and evaluates at every slot of the grid, and immediately on request.

A missed slot is skipped, never repeated; a failing evaluation is logged and the next slot runs. `problems` feeds
readiness. Started and stopped by the alerting service.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
#: Requests within this time are evaluated together.
COALESCE_SECONDS = 0.2
MAX_FAILED_SLOTS = 6  # before `problems` reports it
#: The server answers and stores events beside the preparation.
PREPARE_PAUSE_SECONDS = 0.02


def _nothing() -> bool:
    return False


class RuleScheduler:
    """`first()`, then `tick(at)` at each multiple of `step` (Unix seconds), `evaluate_immediate(now)` soon after `request`."""

    def __init__(
        self,
        step: float,
        tick: Callable[[float], object],
        evaluate_immediate: Callable[[float], object],
        clock: Callable[[], float] = time.time,
        first: Callable[[], object] = lambda: None,
    ):
        self._step, self._tick, self._evaluate_immediate, self._clock = step, tick, evaluate_immediate, clock
        self._first, self._prepare = first, _nothing
        self._requested, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._slot = self._done = clock()
        #: Seconds between the time of the last slot and its begin.
        self.lateness = 0.0
        self._immediate_seconds = 0.0  # immediate evaluations may use half of this thread's time

    def start(self, prepare: Callable[[], bool] = _nothing) -> None:
        """Start the thread. `prepare` is called again and again before the first slot, while it has work left."""
        self._prepare, self._slot = prepare, self._clock()
        self._done = self._slot
        self._thread = threading.Thread(target=self._run, name="rules", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread; wait at most `timeout` seconds."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._requested.set()
        if thread is not None:
            thread.join(timeout)

    def request(self) -> None:
        """Request an immediate evaluation."""
        self._requested.set()

    def take_request(self) -> bool:
        """Whether `request` was called since the last call; resets it."""
        asked = self._requested.is_set()
        self._requested.clear()
        return asked

    def problems(self) -> list[str]:
        """Why the rules do not run, as messages; empty if they do."""
        age = self._clock() - self._done
        if self._thread is None:
            return ["the rules do not run"]
        if age <= max(30.0, MAX_FAILED_SLOTS * self._step):
            return []
        return [f"the rules were not evaluated for {age:.0f} s (expected every {self._step:g} s)"]

    def _prepare_all(self) -> None:
        left = [True]
        while left[-1] and not self._stopping.wait(PREPARE_PAUSE_SECONDS):
            if not self._try(lambda _: left.append(self._prepare()), self._clock()):
                self._stopping.wait(1.0)

    def _run(self) -> None:
        self._prepare_all()
        self._try(lambda _: self._first(), self._clock())
        while not self._stopping.is_set():
            self._requested.wait(self._left())
            if self._stopping.is_set():
                return
            slot = math.floor(self._clock() / self._step) * self._step
            if slot > self._slot:
                self._slot, self.lateness = slot, self._clock() - slot
                if self._try(self._tick, slot):
                    self._done = self._clock()
            if self._requested.is_set():
                self._stopping.wait(max(COALESCE_SECONDS, self._immediate_seconds))
                self.take_request()  # before evaluating: a request during the evaluation runs another one
                began = time.perf_counter()
                self._try(self._evaluate_immediate, self._clock())
                self._immediate_seconds = time.perf_counter() - began

    def _left(self) -> float:
        """Seconds to the next slot, 0 if one has passed. At most one step, even if the clock was set back."""
        now = self._clock()
        self._slot = min(self._slot, now)
        if math.floor(now / self._step) * self._step > self._slot:
            return 0.0
        return max(0.001, self._step - now % self._step)

    def _try(self, work: Callable[[float], object], at: float) -> bool:
        try:
            work(at)
        except Exception:
            log.exception("the rules could not be evaluated")
            return False
        return True
