"""One batch read from a spool: the records to send, and the damage between them.

Called by `listeners.delivery.spool`.
"""

from __future__ import annotations

from listeners.delivery.memory_queue import MemoryQueue
from listeners.delivery.segments import MAX_DAMAGED_BYTES, Position, Record


class Batch:
    """Records above `settled`, within limits. `position` is just after the last record taken.

    `damaged` counts the events lost to damage, `damage` holds their remaining bytes. `memory` is the memory
    queue of the spool's own process, which drops what it cannot write: there every gap that the queue does
    not explain is damage. An orphaned spool has no `memory`: there only gaps after damaged lines are.
    """

    def __init__(
        self,
        settled: int,
        position: Position,
        max_events: int = 0,
        max_bytes: int = 0,
        memory: MemoryQueue | None = None,
    ):
        self.records: list[Record] = []
        self.position, self.damaged, self.damage = position, 0, b""
        #: Every event up to here is in `records` or known to be lost.
        self.reached = self._settled = settled
        self._max_events, self._bytes_left = max_events, max_bytes
        self._skipped: list[bytes] = []
        self._memory = memory

    def take(self, record: Record, position: Position) -> bool:
        """Add a record; False if the batch is full."""
        seq, line = record
        if seq > self._settled:
            if self.records and (len(self.records) >= self._max_events or len(line) > self._bytes_left):
                return False
            self.records.append(record)
            self._bytes_left -= len(line)
        self._count(seq)
        self.reached, self.position = max(self.reached, seq), position
        return True

    def skip(self, raw: bytes) -> None:
        """Remember a damaged line."""
        self._skipped.append(raw)

    def finish(self, position: Position, last: int) -> None:
        """All segments are read; `last` is the sequence number that should have been the last.

        For an orphaned spool that number is unknown: damage at its end counts as one event.
        """
        if self._skipped and self._memory is None:
            self._add_damage(max(1, last - self.reached))
        self._count(last + 1)
        self.reached, self.position = max(self.reached, last), position

    def add_from_memory(self, memory: MemoryQueue) -> None:
        """Add the records in memory, which come after those on disk."""
        if len(self.records) < self._max_events and (self._bytes_left > 0 or not self.records):
            self.records += memory.peek(self._max_events - len(self.records), max(1, self._bytes_left))

    def _count(self, seq: int) -> None:
        """Count the damaged events: sequence numbers have no gaps, so a gap before `seq` is damage.

        There is no gap where a damaged record was written again after the damage, as on a full disk.
        """
        if seq <= self.reached:
            return
        missing = seq - self.reached - 1
        if self._memory is not None:
            missing -= self._memory.dropped_between(self.reached, seq)
        if missing > 0 and (self._skipped or self._memory is not None):
            self._add_damage(missing)
        self._skipped = []

    def _add_damage(self, missing: int) -> None:
        self.damaged += missing
        free_bytes = MAX_DAMAGED_BYTES - len(self.damage)
        self.damage += b"".join(self._skipped)[:free_bytes]
        self._skipped = []
