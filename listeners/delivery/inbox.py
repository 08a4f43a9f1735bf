"""The bounded queue between Spark's callbacks and the agent's threads.

A callback must not block, wait for a disk or raise: it puts one item here and returns. When the queue is
full, the oldest item is dropped and counted.
"""

from __future__ import annotations

import collections
import threading
import time
from typing import Callable, NamedTuple

MAX_ITEMS = 10_000
MAX_BYTES = 32 * 1024 * 1024


class Item(NamedTuple):
    """One event: `data` is JSON text, Spark's own where Spark has one; `at` in Unix seconds."""

    type: str
    at: float
    data: str


class Inbox:
    """Many writers, one reader. `lost` counts dropped items by reason."""

    def __init__(
        self,
        max_items: int = MAX_ITEMS,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ):
        self._items: collections.deque[Item] = collections.deque()
        self._bytes = 0
        self._max_items, self._max_bytes = max_items, max_bytes
        self._clock = clock
        self._ready = threading.Condition(threading.Lock())
        self._closed = False
        self.lost: dict[str, int] = collections.Counter()

    def put(self, type: str, data: str, at: float | None = None) -> None:
        """Add an item. Never blocks and never raises; does nothing after `close()`."""
        item = Item(type, self._clock() if at is None else at, data)
        with self._ready:
            if self._closed:
                return
            self._items.append(item)
            self._bytes += len(data)
            while len(self._items) > self._max_items or (
                self._bytes > self._max_bytes and len(self._items) > 1
            ):
                self._bytes -= len(self._items.popleft().data)
                self.lost["queue_full"] += 1
            self._ready.notify()

    def count_lost(self, reason: str, count: int = 1) -> None:
        """Count events that could not be put into the queue."""
        with self._ready:
            self.lost[reason] += count

    def take(self, timeout: float) -> list[Item]:
        """Take all items; wait up to `timeout` seconds for the first."""
        with self._ready:
            if not self._items and not self._closed:
                self._ready.wait(timeout)
            items, self._items, self._bytes = list(self._items), collections.deque(), 0
            return items

    def abandon(self) -> None:
        """Close the queue in a forked child, where a thread that does not exist may hold the lock forever."""
        self._ready, self._closed = threading.Condition(threading.Lock()), True

    def close(self) -> None:
        """Accept no more items and wake up a waiting reader."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
