"""Threads that deliver alert groups, some for each receiver: neither a slow receiver nor a slow group delays others."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

log = logging.getLogger(__name__)
#: Groups that one receiver is sent at the same time. Groups beyond wait for one of them to end.
MAX_AT_ONCE = 32
#: Key and receiver of a group.
GroupName = tuple[str, str]


class DeliveryWorkers:
    """Call `add` with groups that are due. A group is busy from then until its delivery has ended."""

    def __init__(
        self, deliver: Callable[[GroupName], None], idle: Callable[[], object], may_send: Callable[[], bool]
    ):
        """`idle` is called when a thread has no more to do. `may_send`: else groups are dropped."""
        self._deliver, self._idle, self._may_send = deliver, idle, may_send
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[GroupName]] = {}
        self._at_work: dict[str, int] = {}
        self._busy: set[GroupName] = set()
        self._threads: set[threading.Thread] = set()

    @property
    def busy(self) -> frozenset[GroupName]:
        """The groups that wait for a thread or are being delivered."""
        with self._lock:
            return frozenset(self._busy)

    def add(self, names: Iterable[GroupName]) -> None:
        """Deliver these groups; one that is busy is left out."""
        missing: list[str] = []
        with self._lock:
            for name in names:
                if name in self._busy:
                    continue
                self._busy.add(name)
                self._waiting.setdefault(name[1], deque()).append(name)
                if self._at_work.get(name[1], 0) < MAX_AT_ONCE:
                    self._at_work[name[1]] = self._at_work.get(name[1], 0) + 1
                    missing.append(name[1])
        for receiver in missing:
            try:
                self.start(partial(self._work, receiver))
            except RuntimeError:  # the system has no thread left; the groups are due again in the next round
                log.exception("no thread for %s", receiver)
                self._give_up(receiver)

    def start(self, work: Callable[[], object]) -> None:
        """Run work in a daemon thread: a receiver that hangs must not keep the process from ending."""
        thread = threading.Thread(target=work, name="notify", daemon=True)
        thread.start()
        with self._lock:
            self._threads = {thread, *(known for known in self._threads if known.is_alive())}

    def join(self, until: float) -> None:
        """Wait for the threads at work until this `time.monotonic()`."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, receiver: str) -> None:
        while (name := self._next(receiver)) is not None:
            try:
                if self._may_send():
                    self._deliver(name)
            except Exception:
                log.exception("a delivery to %s ended with an error", receiver)
            with self._lock:
                self._busy.discard(name)
        self._idle()

    def _give_up(self, receiver: str) -> None:
        """Undo the entry of a thread that did not start; without any other, nothing would deliver what waits."""
        with self._lock:
            self._at_work[receiver] -= 1
            if not self._at_work[receiver]:
                del self._at_work[receiver]
                self._busy -= set(self._waiting.pop(receiver, ()))

    def _next(self, receiver: str) -> GroupName | None:
        with self._lock:
            if waiting := self._waiting.get(receiver):
                return waiting.popleft()
            self._at_work[receiver] -= 1
            if not self._at_work[receiver]:
                del self._at_work[receiver]
                self._waiting.pop(receiver, None)
            return None
