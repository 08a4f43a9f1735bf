"""File formats of a spool: segments of records, a cursor, and damaged lines.

A record is a line `<crc32> <seq> <event>`. A segment is named after the sequence number of its first record,
so names sort like events. The cursor is overwritten in place, alternating between two slots: a full disk
cannot refuse it, and a torn write leaves the other slot intact.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

Record = tuple[int, bytes]

SUFFIX = ".events"
SLOT_BYTES = 96
#: Damaged lines are kept for inspection up to this size.
MAX_DAMAGED_BYTES = 1024 * 1024


class Line(NamedTuple):
    """One line of a segment: its record, None if it is damaged or torn, and the offset after it."""

    record: Record | None
    raw: bytes
    end: int


class Position(NamedTuple):
    """Where reading continues: a segment's name and an offset in bytes."""

    segment: str = ""
    offset: int = 0


def segment_name(first_seq: int) -> str:
    """The file name of the segment that begins with this record."""
    return "%016d%s" % (first_seq, SUFFIX)


def first_seq(name: str) -> int:
    """The first sequence number of a segment, from its file name; 0 for any other name."""
    digits = name[: -len(SUFFIX)]
    return int(digits) if digits.isdigit() else 0


def encode(seq: int, line: bytes) -> bytes:
    """A record as a line with its checksum."""
    body = b"%d %s" % (seq, line)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(raw: bytes) -> Record | None:
    """The record of a line without its newline; None if the checksum does not match."""
    checksum, _, body = raw.partition(b" ")
    seq, _, line = body.partition(b" ")
    try:
        if checksum == b"%08x" % zlib.crc32(body):
            return int(seq), line
    except ValueError:
        pass
    return None


def read_lines(path: Path, start: int, size: int) -> Iterator[Line]:
    """The lines from offset `start` up to `size`; OSError if the disk cannot read them."""
    with open(path, "rb") as file:
        file.seek(start)
        end = start
        while end < size:
            raw = file.readline(size - end)
            if not raw:
                return  # the file has been truncated
            end += len(raw)
            whole = raw.endswith(b"\n")
            yield Line(decode(raw[:-1]) if whole else None, raw, end)


def starts_a_line(path: Path, offset: int) -> bool:
    """Whether a record may begin at this offset."""
    if offset == 0:
        return True
    with open(path, "rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


class Cursor:
    """The highest settled sequence number and the read position, in a file with two slots."""

    def __init__(self, path: Path):
        self._path = path
        self._turn = 0

    def load(self) -> tuple[int, Position]:
        """The last saved values; (0, the beginning) if none can be read."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return 0, Position()
        slots = [_slot(content[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
        known = [slot for slot in slots if slot is not None]
        if known:
            self._turn = 1 - slots.index(max(known))
        return max(known, default=(0, Position()))

    def save(self, seq: int, position: Position, sync: bool) -> None:
        """Overwrite the older slot; OSError if the disk refuses."""
        body = b"%d %s %d" % (seq, position.segment.encode("ascii") or b"-", position.offset)
        slot = (b"%08x %s" % (zlib.crc32(body), body)).ljust(SLOT_BYTES - 1) + b"\n"
        if not self._path.exists():
            self._path.write_bytes(b" " * (2 * SLOT_BYTES))  # reserve the space before the disk is full
        with open(self._path, "r+b", buffering=0) as file:
            file.seek(self._turn * SLOT_BYTES)
            file.write(slot)
            if sync:
                os.fsync(file.fileno())
        self._turn = 1 - self._turn


def _slot(content: bytes) -> tuple[int, Position] | None:
    checksum, _, body = content.rstrip().partition(b" ")
    parts = body.split(b" ")
    try:
        if checksum != b"%08x" % zlib.crc32(body):
            return None
        segment = parts[1].decode("ascii").replace("-", "")
        return int(parts[0]), Position(segment, int(parts[2]))
    except (ValueError, IndexError):
        return None


def append_damaged(path: Path, raw: bytes) -> None:
    """Append damaged bytes to a file for inspection, up to MAX_DAMAGED_BYTES. Never raises."""
    try:
        with open(path, "ab") as file:
            free_bytes = MAX_DAMAGED_BYTES - file.tell()
            if free_bytes > len(raw):
                file.write(raw.rstrip(b"\n") + b"\n")
    except OSError:
        pass
