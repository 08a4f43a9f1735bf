"""A queue of events on local disk: append, peek a batch, acknowledge.

Each process has one directory, `<root>/<agent id>/`, under a lock: append-only segments, a cursor, and
`owner.json` (application and server). The size is limited; the oldest segment is dropped first. Records that
the disk refuses are kept in a limited queue in memory and written as soon as the disk accepts them. Every
loss is counted by reason. An orphaned spool is adopted (`listeners.delivery.orphans`) under its own agent id.

Appends are not fsynced: the page cache survives a dead driver, and a dead machine loses Spark's events of the
last seconds anyway. The cursor is fsynced before a segment is unlinked.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from listeners.delivery import locks, segments
from listeners.delivery.batch import Batch
from listeners.delivery.memory_queue import MEMORY_EVENTS, MemoryQueue
from listeners.delivery.segments import Position, Record
from listeners.protocol.errors import SpoolError

SEGMENT_BYTES = 4 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
#: Records in memory are written to disk in chunks of this size.
MAX_WRITE_BYTES = 256 * 1024
#: Failed reads after which a segment is discarded.
MAX_READ_FAILURES = 10


class Queue(Protocol):
    """A queue of events for the sender, in memory or on disk.

    `lost` counts lost events by reason. `trouble` is the reason why events are kept in memory, else None.
    """

    lost: dict[str, int]
    high_seq: int
    trouble: str | None

    def append(self, records: Sequence[Record]) -> None:
        """Add records in ascending order of seq. Never raises."""

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        """The oldest unacknowledged records, at least one if there is any. SpoolError if not readable now."""

    def acknowledge(self, seq: int) -> None:
        """The server has stored all records of the last peek; `seq` is the highest of them."""

    def save_losses(self, losses: Mapping[str, int]) -> None:
        """Save unreported losses for the process that adopts this queue if this process dies."""

    def abandon(self) -> None:
        """Release the parent's files and locks in a forked child without changing them."""

    def close(self, remove: bool = False) -> None:
        """Release the queue; with `remove`, delete it."""

    @property
    def bytes(self) -> int:
        """Bytes in the queue."""

    @property
    def events(self) -> int:
        """Events in the queue."""


@dataclass
class Segment:
    """One file. `last` is its highest sequence number, 0 if only reading the file would show it."""

    size: int
    last: int = 0


class Spool:
    """The queue on disk. The caller must not use it from two threads at once.

    With an `owner` it is this process's own spool: if the disk refuses, it starts in memory. Without an
    `owner` it is an orphan: SpoolError if it cannot be opened.
    """

    def __init__(
        self,
        directory: Path,
        owner: Mapping[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ):
        self.directory, self._owner = directory, owner
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(1, max_bytes // 4))
        self._overflow = MemoryQueue()
        self.lost: dict[str, int] = self._overflow.lost
        self.trouble: str | None = None
        self._file: BinaryIO | None = None
        self._lock: locks.Lock | None = None
        self._cursor = segments.Cursor(directory / "cursor")
        self._segments: dict[str, Segment] = {}
        self._read, self._peeked = Position(), Batch(0, Position())
        #: Events discarded while they were being sent: they are lost only if the server does not store them.
        self._in_doubt: dict[str, int] = {}
        self._read_failures = 0
        self._closed = False
        self.high_seq = self.settled_seq = 0
        try:
            self._acquire_directory()
        except (OSError, SpoolError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._close_file()
        self.trouble = f"spool {self.directory} cannot be used: {error}"
        if self._owner is None:
            self._release()
            raise SpoolError(self.trouble) from error

    def _acquire_directory(self) -> None:
        """Create and lock the directory, also after it was deleted."""
        self._release()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = locks.acquire(self.directory)
        if self._owner is None and not self._lock.certain:
            raise SpoolError("its file system has no locks, so its process may still be alive")
        if self._owner is not None:
            new = self.directory / "owner.json.new"
            new.write_text(json.dumps(dict(self._owner, agent=self.directory.name)))
            os.replace(new, self.directory / "owner.json")
        if not self._segments:
            self._load()

    # -- writing ---------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Never raises: what the disk refuses is kept in memory until the disk accepts it again."""
        if not records or self._closed:
            return
        self.high_seq = max(self.high_seq, records[-1][0])
        try:
            self._flush_memory()
            self._write(records)
            self.trouble = None
        except (OSError, SpoolError) as error:
            self._close_file()
            self.trouble = f"spool {self.directory} cannot be written: {error}"
            self._overflow.append(records)
        self._drop_oldest()

    def _flush_memory(self) -> None:
        while self._overflow.events:
            piece = self._overflow.peek(MEMORY_EVENTS, MAX_WRITE_BYTES)
            self._write(piece)
            self._overflow.acknowledge(piece[-1][0])

    def _write(self, records: Sequence[Record]) -> None:
        if self._file is not None and os.fstat(self._file.fileno()).st_nlink == 0:
            self._close_file()  # the file was deleted; reading will count its records as lost
        if self._file is None or self._segments[self._current()].size >= self._segment_bytes:
            self._open_segment(records[0][0])
        assert self._file is not None
        segment = self._segments[self._current()]
        blob = b"".join(segments.encode(seq, line) for seq, line in records)
        written = self._file.write(blob)
        if written != len(blob):  # a full disk writes a part and raises no error
            raise OSError("only a part was written")
        segment.size, segment.last = segment.size + len(blob), records[-1][0]

    def _open_segment(self, first_seq: int) -> None:
        self._close_file()
        if self._lock is None or not (self.directory / "lock").exists():
            self._acquire_directory()
        name = segments.segment_name(first_seq)
        self._file = open(self.directory / name, "ab", buffering=0)
        segment = self._segments.setdefault(name, Segment(0))
        if os.fstat(self._file.fileno()).st_size > segment.size:
            self._file.truncate(segment.size)  # remove the partial record of a failed append

    def _drop_oldest(self) -> None:
        while len(self._segments) > 1 and sum(s.size for s in self._segments.values()) > self._max_bytes:
            self._discard_segment(next(iter(self._segments)), "spool_full")

    def _discard_segment(self, name: str, reason: str) -> None:
        """Delete the oldest segment and count its unsettled records as lost."""
        last, settled = self._last_of(name), max(self.settled_seq, segments.first_seq(name) - 1)
        in_flight = max(0, min(last, self._sent_up_to()) - settled)
        if in_flight:
            self._in_doubt[reason] = self._in_doubt.get(reason, 0) + in_flight
        self.lost[reason] += max(0, last - settled) - in_flight
        self.settled_seq = max(self.settled_seq, last)
        self._forget(name)

    def _sent_up_to(self) -> int:
        return self._peeked.records[-1][0] if self._peeked.records else 0

    def _last_of(self, name: str) -> int:
        later = [segments.first_seq(other) for other in self._segments if other > name]
        known = min(later, default=self.high_seq + 1) - 1 if not self._overflow.events else 0
        return self._segments[name].last or known

    # -- reading ---------------------------------------------------------------------------------

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        """The oldest unacknowledged records; SpoolError if the disk cannot read them now."""
        self._count_in_doubt()
        memory = self._overflow if self._owner is not None else None
        batch = self._peeked = Batch(self.settled_seq, self._read, max_events, max_bytes, memory)
        for name in [] if self._closed else list(self._segments):
            try:
                if not self._read_segment(name, batch):
                    return batch.records
                self._read_failures = 0
            except OSError as error:
                if batch.records:
                    return batch.records  # send these first
                self._on_read_error(name, error)
                return self.peek(max_events, max_bytes)
        newest = next(reversed(self._segments), "")
        last = self._overflow.first_seq - 1 if self._overflow.events else self.high_seq
        batch.finish(Position(newest, self._segments[newest].size) if newest else Position(), last)
        batch.add_from_memory(self._overflow)
        if not batch.records and (self.events or batch.damaged):
            self.acknowledge(self.high_seq)  # the missing records will not come back
        return batch.records

    def _read_segment(self, name: str, batch: Batch) -> bool:
        """Read one segment into the batch; False if the batch is full."""
        if name < self._read.segment:
            return True
        end = self._read.offset if name == self._read.segment else 0
        for line in segments.read_lines(self.directory / name, end, self._segments[name].size):
            end = line.end
            if line.record is None:
                batch.skip(line.raw)
            elif not batch.take(line.record, Position(name, line.end)):
                return False
        if end < self._segments[name].size:
            self._mark_truncated(name, end)
        return True

    def _mark_truncated(self, name: str, end: int) -> None:
        """The file was truncated: what is missing counts as a gap. Nothing more is written to it."""
        if self._file is not None and name == self._current():
            self._close_file()
        self._segments[name].size = end

    def _count_in_doubt(self) -> None:
        for reason, count in self._in_doubt.items():
            self.lost[reason] += count
        self._in_doubt = {}

    def _on_read_error(self, name: str, error: OSError) -> None:
        self._read_failures += 1
        gone = isinstance(error, FileNotFoundError)
        if not gone and self._read_failures < MAX_READ_FAILURES:
            raise SpoolError(f"spool {self.directory / name} cannot be read: {error}") from error
        self._read_failures = 0
        self._discard_segment(name, "spool_removed" if gone else "spool_unreadable")

    def acknowledge(self, seq: int) -> None:
        """All records of the last peek are safe with the server; `seq` is the highest of them."""
        if self._closed:
            return
        batch, self._peeked = self._peeked, Batch(seq, self._peeked.position)
        self._in_doubt = {}
        self.settled_seq = max(self.settled_seq, seq, batch.reached)
        self._overflow.acknowledge(seq)
        self._overflow.forget_dropped(self.settled_seq)
        if batch.damaged:
            self.lost["corrupt_record"] += batch.damaged
            segments.append_damaged(self.directory / "damaged", batch.damage)
        self._read = batch.position if batch.position.segment in self._segments else Position()
        done = [name for name in self._segments if self._is_read(name)]
        try:
            self._cursor.save(self.settled_seq, self._read, sync=bool(done))
        except OSError:
            pass  # after a crash these events are sent again; the server drops duplicates
        for name in done:
            self._forget(name)

    def _is_read(self, name: str) -> bool:
        if name != self._read.segment:
            return name < self._read.segment
        size = self._segments[name].size
        in_use = self._file is not None and name == self._current() and size < self._segment_bytes
        return self._read.offset >= size and not in_use

    @property
    def bytes(self) -> int:
        """Bytes in the queue, on disk and in memory."""
        read = sum(s.size for name, s in self._segments.items() if name < self._read.segment)
        on_disk = sum(s.size for s in self._segments.values()) - read - self._read.offset
        return max(0, on_disk) + self._overflow.bytes

    @property
    def events(self) -> int:
        """Events in the queue (an upper limit: counts sequence numbers, including lost events)."""
        return max(0, self.high_seq - self.settled_seq)

    # -- lifecycle -------------------------------------------------------------------------------

    def _load(self) -> None:
        for path in sorted(self.directory.glob("*" + segments.SUFFIX)):
            self._segments[path.name] = Segment(path.stat().st_size)
        settled, position = self._cursor.load()
        # After a read-only phase the cursor on disk is older, and deleted segments may still exist.
        self.settled_seq = max(self.settled_seq, settled)
        segment = self._segments.get(position.segment)
        if segment is not None and position.offset <= segment.size:
            path = self.directory / position.segment
            self._read = position if segments.starts_a_line(path, position.offset) else Position()
        self.high_seq = max(self.high_seq, self.settled_seq)
        for name in reversed(list(self._segments)):
            found = [
                line.record[0]
                for line in segments.read_lines(self.directory / name, 0, self._segments[name].size)
                if line.record is not None
            ]
            if found:
                self._segments[name].last = max(found)
                self.high_seq = max(self.high_seq, *found)
                return

    def save_losses(self, losses: Mapping[str, int]) -> None:
        """Save unreported losses for the process that adopts this spool if this process dies."""
        path = self.directory / "losses.json"
        try:
            if losses and not self._closed:
                new = self.directory / "losses.json.new"
                new.write_text(json.dumps(dict(losses)))
                os.replace(new, path)
            elif path.exists():
                path.unlink()
        except OSError:
            pass  # a disk that refuses events refuses this file too

    def saved_losses(self) -> dict[str, int]:
        """What `save_losses` saved; empty if nothing can be read."""
        try:
            document = json.loads((self.directory / "losses.json").read_text())
            return {str(k)[:64]: v for k, v in document.items() if type(v) is int and v > 0}
        except (OSError, ValueError, AttributeError):
            return {}

    def _forget(self, name: str) -> None:
        if self._file is not None and name == self._current():
            self._close_file()
        self._segments.pop(name, None)
        if name == self._read.segment:
            self._read = Position()
        try:
            (self.directory / name).unlink()
        except OSError:
            pass  # the file remains on a read-only disk; settled records are not sent again

    def _current(self) -> str:
        assert self._file is not None
        return os.path.basename(str(self._file.name))

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def abandon(self) -> None:
        """Release the lock in a forked child: the parent's lock must end with the parent."""
        self._release()
        self._closed = True

    def close(self, remove: bool = False) -> None:
        """Close and unlock the directory; with `remove`, delete it (everything is acknowledged)."""
        if not self._closed and self._overflow.events:
            try:
                self._flush_memory()
            except (OSError, SpoolError):
                self.lost["disk_unusable"] += self._overflow.events
                self._overflow.close()
        self._closed = True
        self._close_file()
        if remove:
            keep_damaged(self.directory)
            shutil.rmtree(self.directory, ignore_errors=True)
        self._release()


def keep_damaged(directory: Path) -> None:
    """Move the damaged lines next to the spool before it is deleted."""
    try:
        os.replace(directory / "damaged", directory.with_name(directory.name + ".damaged"))
    except OSError:
        pass
