"""The zip of a RocksDB snapshot, read as Spark does: from the front, entry by entry, without the central directory.

The entry `metadata` names the SST files with their sizes.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

from controlplane.checkpoints.decoding.errors import Corrupt

_LOCAL = struct.Struct("<IHHHHHIIIHH")
_LOCAL_MARK, _DESCRIPTOR_MARK = 0x04034B50, 0x08074B50
#: No more bytes of an entry (a manifest, an option file) are kept, and no more are decompressed at once.
MAX_ENTRY_BYTES = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """The metadata of a snapshot. `files`: (name in SSTs/ or logs/, bytes) of each file that belongs to it."""

    files: tuple[tuple[str, int], ...]


def read(data: bytes) -> Snapshot:
    """Read a snapshot's list of files. Raises Corrupt where the zip or its metadata cannot be read."""
    if not data:
        raise Corrupt("it is empty")
    entries = _entries(data)
    if "metadata" not in entries:
        raise Corrupt("it has no entry `metadata`")
    return Snapshot(_files(entries["metadata"].decode("utf-8", errors="replace")))


def _files(text: str) -> tuple[tuple[str, int], ...]:
    head, _, body = text.partition("\n")
    if not head.startswith("v"):
        raise Corrupt("its metadata does not start with a version")
    try:
        held = json.loads(body)
        listed = [*(held.get("sstFiles") or ()), *(held.get("logFiles") or ())]
        return tuple((str(_remote(item)), int(item["sizeBytes"])) for item in listed)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise Corrupt("its metadata cannot be read") from None


def _remote(item: dict[str, object]) -> object:
    return item.get("dfsSstFileName") or item["dfsLogFileName"]


def _entries(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    at = 0
    while len(data) - at >= _LOCAL.size and data[at : at + 4] == b"PK\x03\x04":
        name, content, at = _entry(data, at)
        found[name] = content
    if not found:
        raise Corrupt("it is not a zip")
    return found


def _entry(data: bytes, at: int) -> tuple[str, bytes, int]:
    _, _, flags, method, _, _, crc, packed, _, name_size, extra = _LOCAL.unpack_from(data, at)
    start = at + _LOCAL.size + name_size + extra
    name = data[at + _LOCAL.size : at + _LOCAL.size + name_size].decode("utf-8", errors="replace")
    if method == 8:
        content, found, start = _inflated(data, start, name)
    else:
        content, start = data[start : start + packed], start + packed
        found = zlib.crc32(content)
        if start > len(data):
            raise Corrupt(f"it is cut off within its entry {name}")
    if flags & 8:
        crc, start = _descriptor(data, start)
    if found != crc:
        raise Corrupt(f"the checksum of its entry {name} is wrong")
    return name, content, start


def _inflated(data: bytes, start: int, name: str) -> tuple[bytes, int, int]:
    """The first bytes of a deflated entry, the CRC-32 of all its bytes, and the position of its end."""
    stream, kept, crc = zlib.decompressobj(-15), bytearray(), 0
    rest = data[start:]
    try:
        while not stream.eof:
            piece = stream.decompress(rest, MAX_ENTRY_BYTES)
            if not piece and not stream.eof:
                raise Corrupt(f"it is cut off within its entry {name}")
            crc, rest = zlib.crc32(piece, crc), stream.unconsumed_tail
            kept += piece[: MAX_ENTRY_BYTES - len(kept)]
    except zlib.error as error:
        raise Corrupt(f"its entry {name} cannot be decompressed ({error})") from None
    return bytes(kept), crc, len(data) - len(stream.unused_data)


def _descriptor(data: bytes, start: int) -> tuple[int, int]:
    marked = data[start : start + 4] == _DESCRIPTOR_MARK.to_bytes(4, "little")
    at = start + 4 if marked else start
    if len(data) < at + 12:
        raise Corrupt("it is cut off after an entry")
    return int.from_bytes(data[at : at + 4], "little"), at + 12
