"""A queue of events in memory: for agents without a spool, and for records that a spool's disk refuses.

Limited in events and bytes; the oldest event is dropped first and counted.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from listeners.delivery.segments import Record

MEMORY_EVENTS = 5_000
MEMORY_BYTES = 32 * 1024 * 1024


class MemoryQueue:
    """Implements `listeners.delivery.spool.Queue` in memory."""

    def __init__(self, max_events: int = MEMORY_EVENTS, max_bytes: int = MEMORY_BYTES):
        self._records: collections.deque[Record] = collections.deque()
        self._bytes = 0
        self._max_events, self._max_bytes = max_events, max_bytes
        self.lost: dict[str, int] = collections.Counter()
        #: (first, last) of the dropped ranges, oldest first, until they are acknowledged.
        self._dropped: collections.deque[tuple[int, int]] = collections.deque()
        self.high_seq = 0
        self.trouble: str | None = None

    def append(self, records: Sequence[Record]) -> None:
        """Add records; drop the oldest beyond the limits."""
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
        """The number of dropped events above `low` and below `high`."""
        return sum(max(0, min(last, high - 1) - max(first, low + 1) + 1) for first, last in self._dropped)

    @property
    def first_seq(self) -> int:
        """The sequence number of the oldest event; 0 if the queue is empty."""
        return self._records[0][0] if self._records else 0

    def forget_dropped(self, seq: int) -> None:
        """Forget which events up to `seq` were dropped."""
        while self._dropped and self._dropped[0][1] <= seq:
            self._dropped.popleft()

    def _is_over_limit(self) -> bool:
        waiting = len(self._records)
        return waiting > self._max_events or (self._bytes > self._max_bytes and waiting > 1)

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        """The oldest records within the limits, at least one if there is any."""
        batch: list[Record] = []
        size = 0
        for record in self._records:
            if batch and (len(batch) >= max_events or size + len(record[1]) > max_bytes):
                break
            batch.append(record)
            size += len(record[1])
        return batch

    def acknowledge(self, seq: int) -> None:
        """Remove the records up to `seq`."""
        while self._records and self._records[0][0] <= seq:
            self._bytes -= len(self._records.popleft()[1])

    def save_losses(self, losses: Mapping[str, int]) -> None:
        """Do nothing: a queue in memory does not outlive its process."""

    def abandon(self) -> None:
        """Do nothing: a queue in memory shares nothing with a forked child."""

    def close(self, remove: bool = False) -> None:
        """Drop all records."""
        self._records.clear()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes in the queue."""
        return self._bytes

    @property
    def events(self) -> int:
        """Events in the queue."""
        return len(self._records)
