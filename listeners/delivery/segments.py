"""The files of a spool: segments of records, a cursor, and what was damaged.

A record is a line `<crc32> <seq> <event>`. A segment is named by the sequence number of its first
record, so that names sort as events do. The cursor is overwritten in place, in two slots by turns: a
full disk cannot refuse it, and a torn write leaves the other slot.
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
#: Damaged lines are kept up to this size for people to look at.
MAX_DAMAGED_BYTES = 1024 * 1024


class Line(NamedTuple):
    """One line of a segment: its record, None where it is damaged or torn; the offset behind it."""

    record: Record | None
    raw: bytes
    end: int


class Position(NamedTuple):
    """Where reading goes on: a segment's name and an offset in bytes."""

    segment: str = ""
    offset: int = 0


def segment_name(first_seq: int) -> str:
    return "%016d%s" % (first_seq, SUFFIX)


def first_seq(name: str) -> int:
    digits = name[: -len(SUFFIX)]
    return int(digits) if digits.isdigit() else 0


def encode(seq: int, line: bytes) -> bytes:
    body = b"%d %s" % (seq, line)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(raw: bytes) -> Record | None:
    """The record of a line without its newline; None where the checksum does not fit."""
    checksum, _, body = raw.partition(b" ")
    seq, _, line = body.partition(b" ")
    try:
        if checksum == b"%08x" % zlib.crc32(body):
            return int(seq), line
    except ValueError:
        pass
    return None


def read_lines(path: Path, start: int, size: int) -> Iterator[Line]:
    """The lines from offset `start` up to `size`; OSError where the disk does not give them."""
    with open(path, "rb") as file:
        file.seek(start)
        end = start
        while end < size:
            raw = file.readline(size - end)
            if not raw:
                return  # shorter than it was: somebody cut it
            end += len(raw)
            whole = raw.endswith(b"\n")
            yield Line(decode(raw[:-1]) if whole else None, raw, end)


def starts_a_line(path: Path, offset: int) -> bool:
    """Whether a record may begin here."""
    if offset == 0:
        return True
    with open(path, "rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


class Cursor:
    """The highest settled sequence number and where reading goes on, in a file of two slots."""

    def __init__(self, path: Path):
        self._path = path
        self._turn = 0

    def load(self) -> tuple[int, Position]:
        """What was saved last; (0, the beginning) where nothing readable is."""
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
        """Overwrite the older slot; OSError where that is refused."""
        body = b"%d %s %d" % (seq, position.segment.encode("ascii") or b"-", position.offset)
        slot = (b"%08x %s" % (zlib.crc32(body), body)).ljust(SLOT_BYTES - 1) + b"\n"
        if not self._path.exists():
            self._path.write_bytes(b" " * (2 * SLOT_BYTES))  # its room, before the disk is full
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


def set_aside(path: Path, raw: bytes) -> None:
    """Keep damaged bytes for people to look at, while there is room; never raises."""
    try:
        with open(path, "ab") as file:
            free_bytes = MAX_DAMAGED_BYTES - file.tell()
            if free_bytes > len(raw):
                file.write(raw.rstrip(b"\n") + b"\n")
    except OSError:
        pass
