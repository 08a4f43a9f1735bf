"""What one look into a spool gathers: the records to send, and what was damaged between them.

Called by `listeners.delivery.spool`.
"""

from __future__ import annotations

from listeners.delivery.memory_queue import MemoryQueue
from listeners.delivery.segments import MAX_DAMAGED_BYTES, Position, Record


class Batch:
    """Records above `settled`, within bounds. `position` is behind the last one taken.

    `damaged` counts events that were lost on the way, `damage` is what is left of them. With `memory`, where the
    spool's own process drops what it cannot write, every hole that it does not explain is such a loss; without,
    the spool is one that somebody left, and only holes with damaged lines before them are.
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
        #: All up to here is in `records`, or known to be lost.
        self.reached = self._settled = settled
        self._max_events, self._bytes_left = max_events, max_bytes
        self._skipped: list[bytes] = []
        self._memory = memory

    def take(self, record: Record, position: Position) -> bool:
        """False when it does not fit any more."""
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
        """A line that is no record."""
        self._skipped.append(raw)

    def finish(self, position: Position, last: int) -> None:
        """Nothing more is on the disk; `last`: the sequence number that should have been the last.

        Of a spool that somebody left nobody knows: damage at its end counts as one event.
        """
        if self._skipped and self._memory is None:
            self._add_damage(max(1, last - self.reached))
        self._count(last + 1)
        self.reached, self.position = max(self.reached, last), position

    def add_from_memory(self, memory: MemoryQueue) -> None:
        """What waits in memory comes behind what is on the disk."""
        if len(self.records) < self._max_events and (self._bytes_left > 0 or not self.records):
            self.records += memory.peek(self._max_events - len(self.records), max(1, self._bytes_left))

    def _count(self, seq: int) -> None:
        """Sequence numbers have no holes: up to `seq` they tell how many events the damage cost.

        None where what is damaged was written once more behind it, as after a full disk.
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
