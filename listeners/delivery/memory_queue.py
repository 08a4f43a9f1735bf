"""A queue of events in memory: the form without a disk, and where a spool keeps what its disk refuses.

Bounded in events and bytes; the oldest goes first, and its loss is counted.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from listeners.delivery.segments import Record

MEMORY_EVENTS = 5_000
MEMORY_BYTES = 32 * 1024 * 1024


class MemoryQueue:
    """One form of `listeners.delivery.spool.Queue`."""

    def __init__(self, max_events: int = MEMORY_EVENTS, max_bytes: int = MEMORY_BYTES):
        self._records: collections.deque[Record] = collections.deque()
        self._bytes = 0
        self._max_events, self._max_bytes = max_events, max_bytes
        self.lost: dict[str, int] = collections.Counter()
        #: (first, last) of what was dropped, oldest first, as long as it is not acknowledged.
        self._dropped: collections.deque[tuple[int, int]] = collections.deque()
        self.high_seq = 0
        self.trouble: str | None = None

    def append(self, records: Sequence[Record]) -> None:
        for seq, line in records:
            self._records.append((seq, line))
            self._bytes += len(line)
            self.high_seq = max(self.high_seq, seq)
            while self._is_over_limit():
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        seq, line = self._records.popleft()
        self._bytes -= len(line)
        self.lost["disk_unusable"] += 1
        extends_last = self._dropped and self._dropped[-1][1] == seq - 1
        self._dropped.append((self._dropped.pop()[0] if extends_last else seq, seq))

    def dropped_between(self, low: int, high: int) -> int:
        """How many of the events above `low` and below `high` were dropped here."""
        return sum(max(0, min(last, high - 1) - max(first, low + 1) + 1) for first, last in self._dropped)

    @property
    def first_seq(self) -> int:
        """Of the oldest that waits; 0 where none does."""
        return self._records[0][0] if self._records else 0

    def forget_dropped(self, seq: int) -> None:
        """Nobody will ask any more what was dropped up to `seq`."""
        while self._dropped and self._dropped[0][1] <= seq:
            self._dropped.popleft()

    def _is_over_limit(self) -> bool:
        waiting = len(self._records)
        return waiting > self._max_events or (self._bytes > self._max_bytes and waiting > 1)

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        batch: list[Record] = []
        size = 0
        for record in self._records:
            if batch and (len(batch) >= max_events or size + len(record[1]) > max_bytes):
                break
            batch.append(record)
            size += len(record[1])
        return batch

    def acknowledge(self, seq: int) -> None:
        while self._records and self._records[0][0] <= seq:
            self._bytes -= len(self._records.popleft()[1])

    def save_losses(self, losses: Mapping[str, int]) -> None:
        """Nothing outlives this process here."""

    def abandon(self) -> None:
        """Nothing is shared with a forked child."""

    def close(self, remove: bool = False) -> None:
        self._records.clear()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def events(self) -> int:
        return len(self._records)
