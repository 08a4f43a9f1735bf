"""A queue on local disk: append, peek a batch, acknowledge.

One directory per process, `<root>/<agent id>/`, under an exclusive lock: append-only segments of
lines `<crc32> <seq> <event>`, a cursor with the last acknowledged sequence number, and `owner.json`
(whose spool it is). Bounded in bytes: the oldest segment goes first and its events are counted. When
the disk refuses, events wait in a bounded memory queue. A spool whose process is gone is adopted by
the next process of the same application and sent under its own agent id, so nothing is stored twice.

Appends are not fsynced: a dead driver keeps its page cache, a dead machine takes Spark's events of
the last seconds with it anyway. The cursor is fsynced before a segment is unlinked.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from listeners.errors import SpoolError

try:
    import fcntl
except (
    ImportError
):  # pragma: no cover - Windows drivers have no flock; two agents never share a directory there
    fcntl = None  # type: ignore[assignment]

CAN_LOCK: bool = fcntl is not None
SEGMENT_BYTES = 4 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
MEMORY_EVENTS = 5_000
MEMORY_BYTES = 32 * 1024 * 1024

Record = tuple[int, bytes]


class Queue(Protocol):
    """What the agent asks of a place for events; in memory or on disk."""

    lost: dict[str, int]
    high_seq: int

    def append(self, records: Sequence[Record]) -> None: ...

    def peek(self, max_events: int, max_bytes: int) -> list[Record]: ...

    def acknowledge(self, seq: int) -> None: ...

    def close(self, remove: bool = False) -> None: ...

    @property
    def bytes(self) -> int: ...

    @property
    def events(self) -> int: ...


class MemoryQueue:
    """The form without a disk: bounded in events and bytes, the oldest goes first and is counted."""

    def __init__(self, max_events: int = MEMORY_EVENTS, max_bytes: int = MEMORY_BYTES):
        self._records: collections.deque[Record] = collections.deque()
        self._max_events, self._max_bytes = max_events, max_bytes
        self.lost: dict[str, int] = collections.Counter()
        self.high_seq = 0

    def append(self, records: Sequence[Record]) -> None:
        self._records.extend(records)
        self.high_seq = max([self.high_seq] + [seq for seq, _ in records])
        size = self.bytes
        while len(self._records) > self._max_events or (size > self._max_bytes and len(self._records) > 1):
            size -= len(self._records.popleft()[1])
            self.lost["disk_unusable"] += 1

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        batch: list[Record] = []
        size = 0
        for record in list(self._records):
            if batch and (len(batch) >= max_events or size + len(record[1]) > max_bytes):
                break
            batch.append(record)
            size += len(record[1])
        return batch

    def acknowledge(self, seq: int) -> None:
        while self._records and self._records[0][0] <= seq:
            self._records.popleft()

    def close(self, remove: bool = False) -> None:
        self._records.clear()

    @property
    def bytes(self) -> int:
        return sum(len(line) for _, line in self._records)

    @property
    def events(self) -> int:
        return len(self._records)


class Position(NamedTuple):
    """Where reading goes on: a segment's file name, an offset in bytes, damaged records met on the way."""

    segment: str
    offset: int
    corrupt: int = 0


class Spool:
    """The form on disk. Owned by one process; the caller keeps two threads from using it at once."""

    def __init__(self, directory: Path, max_bytes: int = MAX_BYTES, segment_bytes: int = SEGMENT_BYTES):
        self.directory = directory
        self._overflow = MemoryQueue()
        self.lost = self._overflow.lost
        self._max_bytes, self._segment_bytes = max_bytes, segment_bytes
        self._file: BinaryIO | None = None
        self._lock: BinaryIO | None = None
        self.high_seq = 0
        self.acknowledged_seq = 0
        self._sizes: dict[str, int] = {}
        self._read = Position("", 0)
        self._mark: Position | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _locked(directory / "lock")
            self._load()
        except OSError as error:
            self._release()
            raise SpoolError(f"spool {directory} cannot be used: {error}") from error

    # -- writing ---------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Keep records (ascending seq). Never raises: what the disk refuses waits in memory."""
        if not records:
            return
        self.high_seq = max(self.high_seq, records[-1][0])
        if not self._overflow.events:  # else the order would be lost
            try:
                self._write(records)
                self._drop_oldest()
                return
            except OSError:
                self._close_file()
        self._overflow.append(records)

    def _write(self, records: Sequence[Record]) -> None:
        blob = b"".join(_encode(seq, line) for seq, line in records)
        if self._file is None or self._sizes[self._current()] >= self._segment_bytes:
            self._open_segment(records[0][0])
        assert self._file is not None
        name = self._current()
        written = self._file.write(blob)
        if written != len(blob):  # a full disk takes a part and says so only here
            self._truncate(name)
            raise OSError("short write")
        self._sizes[name] += len(blob)

    def _truncate(self, name: str) -> None:
        try:
            os.truncate(str(self.directory / name), self._sizes[name])
        except OSError:
            pass  # the checksum tells the half record apart

    def _open_segment(self, first_seq: int) -> None:
        self._close_file()
        name = "%016d.events" % first_seq
        self._file = open(self.directory / name, "ab", buffering=0)
        self._sizes[name] = os.path.getsize(self.directory / name)

    def _drop_oldest(self) -> None:
        while self.bytes > self._max_bytes and len(self._sizes) > 1:
            name = min(self._sizes)
            start = self._read.offset if name == self._read.segment else 0
            self.lost["spool_full"] += sum(
                record is not None for record, _ in _lines(self.directory / name, start, self._sizes[name])
            )
            self._forget(name)

    # -- reading ---------------------------------------------------------------------------------

    def peek(self, max_events: int, max_bytes: int) -> list[Record]:
        """The oldest unacknowledged records, at least one if there is any; the disk's before memory's."""
        batch: list[Record] = []
        size, position = 0, self._read
        for found in self._unread():
            if batch and (len(batch) >= max_events or size + len(found.line) > max_bytes):
                break
            position = found.behind
            if found.line and found.seq > self.acknowledged_seq:
                batch.append((found.seq, found.line))
                size += len(found.line)
        else:
            batch += (
                self._overflow.peek(max_events - len(batch), max_bytes - size)
                if len(batch) < max_events
                else []
            )
        self._mark = position
        return batch

    def _unread(self) -> Iterator[Found]:
        corrupt = 0
        for name in sorted(self._sizes):
            if name >= self._read.segment:
                start = self._read.offset if name == self._read.segment else 0
                for record, end in _lines(self.directory / name, start, self._sizes[name]):
                    corrupt += record is None
                    seq, line = record or (0, b"")
                    yield Found(seq, line, Position(name, end, corrupt))

    def acknowledge(self, seq: int) -> None:
        """All records of the last peek are safe with the server; `seq` is the highest of them."""
        self.acknowledged_seq = max(self.acknowledged_seq, seq)
        self._overflow.acknowledge(seq)
        if self._mark is not None:
            if self._mark.corrupt:
                self.lost["corrupt_record"] += self._mark.corrupt
            self._read, self._mark = Position(self._mark.segment, self._mark.offset), None
        try:
            done = [name for name in self._sizes if self._is_read(name)]
            self._save_cursor(sync=bool(done))
            for name in done:
                self._forget(name)
        except OSError:
            pass  # the events would be sent once more after a crash; the server drops duplicates

    def _is_read(self, name: str) -> bool:
        if name < self._read.segment:
            return True
        full = self._sizes[name] >= self._segment_bytes
        return full and name == self._read.segment and self._read.offset >= self._sizes[name]

    @property
    def bytes(self) -> int:
        """Bytes that wait, on disk and in memory."""
        return max(0, sum(self._sizes.values()) - self._read.offset) + self._overflow.bytes

    @property
    def events(self) -> int:
        """Events that wait (a bound: it counts sequence numbers, losses included)."""
        return max(0, self.high_seq - self.acknowledged_seq)

    # -- life ------------------------------------------------------------------------------------

    def _load(self) -> None:
        for path in self.directory.glob("*.events"):
            self._sizes[path.name] = path.stat().st_size
        cursor = self.directory / "cursor"
        if cursor.exists():
            text = cursor.read_text().strip()
            self.acknowledged_seq = int(text) if text.isdigit() else 0
        self.high_seq = self.acknowledged_seq
        for found in self._unread():
            self.high_seq = max(self.high_seq, found.seq)

    def _save_cursor(self, sync: bool) -> None:
        temporary = self.directory / "cursor.new"
        with open(temporary, "w") as file:
            file.write(str(self.acknowledged_seq))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, self.directory / "cursor")

    def _forget(self, name: str) -> None:
        if self._file is not None and name == self._current():
            self._close_file()
        self._sizes.pop(name, None)
        if name == self._read.segment:
            self._read, self._mark = Position("", 0), None
        (self.directory / name).unlink()

    def _current(self) -> str:
        assert self._file is not None
        return os.path.basename(str(self._file.name))

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self, remove: bool = False) -> None:
        """Give the directory up; with `remove`, delete it (all is acknowledged)."""
        self._close_file()
        if remove:
            shutil.rmtree(self.directory, ignore_errors=True)
        self._release()


class Found(NamedTuple):
    """A record on disk and the position behind it; an empty line where the record is damaged."""

    seq: int
    line: bytes
    behind: Position


def _locked(path: Path) -> BinaryIO:
    file = open(path, "ab")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


def _encode(seq: int, line: bytes) -> bytes:
    body = b"%d %s" % (seq, line)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _lines(path: Path, start: int, size: int) -> Iterator[tuple[Record | None, int]]:
    """(record, offset behind it) from `start` up to `size`; None for a damaged record."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            end = start
            while end < size:
                raw = file.readline(size - end)
                if not raw.endswith(b"\n"):
                    return  # a record that was cut off by a crash
                end += len(raw)
                yield _decode(raw[:-1]), end
    except OSError:
        return


def _decode(raw: bytes) -> Record | None:
    checksum, _, body = raw.partition(b" ")
    seq, _, line = body.partition(b" ")
    try:
        if int(checksum, 16) == zlib.crc32(body):
            return int(seq), line
    except ValueError:
        pass
    return None


def open_spool(root: Path, agent: str, owner: dict[str, str], max_bytes: int = MAX_BYTES) -> Spool:
    """This process's own spool. SpoolError if the directory cannot be made or is in use."""
    spool = Spool(root / agent, max_bytes)
    try:
        (spool.directory / "owner.json").write_text(json.dumps(dict(owner, agent=agent)))
    except OSError as error:
        spool.close()
        raise SpoolError(f"spool {spool.directory} cannot be written: {error}") from error
    return spool


def orphans(root: Path, owner: dict[str, str], most: int = 20) -> Iterator[Spool]:
    """Spools under `root` that the same owner left behind: no process holds their lock."""
    if not CAN_LOCK:
        return  # without locks nobody can tell a dead process's spool from a living one's
    for directory in sorted(root.glob("*"))[: most * 10]:
        try:
            left = json.loads((directory / "owner.json").read_text())
        except (OSError, ValueError):
            continue
        if not isinstance(left, dict) or any(left.get(key) != value for key, value in owner.items()):
            continue
        try:
            yield Spool(directory)
        except SpoolError:
            continue  # its process lives
