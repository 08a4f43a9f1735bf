"""lz4-java's block stream, as Spark's state files are written: `LZ4Block`, token, lengths, xxHash, payload.

Pure Python: state files of a few kilobytes are read, never large ones.
"""

from __future__ import annotations

import struct

from controlplane.checkpoints.decoding.errors import Corrupt

MAGIC = b"LZ4Block"
HEADER = struct.Struct("<8sBiii")
SEED = 0x9747B28C
#: A block is at most 32 MB in the format; Spark writes 32 KB.
MOST_BLOCK = 1 << 25
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF


def decompressed(data: bytes, limit: int) -> tuple[bytes, str | None]:
    """All that can be read, and what stopped the reading before its end (None: nothing).

    An end of the file between two blocks is a clean end, with or without the empty end block; so reads lz4-java.
    """
    out, at = bytearray(), 0
    while len(data) - at >= HEADER.size and len(out) < limit:
        try:
            block, at = _block(data, at)
        except Corrupt as error:
            return bytes(out), str(error)
        out += block
    if 0 < len(data) - at < HEADER.size and len(out) < limit:
        return bytes(out), "it ends within the head of a block"
    return bytes(out), None


def _block(data: bytes, at: int) -> tuple[bytes, int]:
    magic, token, packed, plain, check = HEADER.unpack_from(data, at)
    method, start = token & 0xF0, at + HEADER.size
    if magic != MAGIC or method not in (0x10, 0x20):
        raise Corrupt(f"no LZ4 block at byte {at}")
    if not (0 <= plain <= MOST_BLOCK and 0 <= packed <= MOST_BLOCK) or (method == 0x10 and plain != packed):
        raise Corrupt(f"the LZ4 block at byte {at} has impossible lengths")
    payload = data[start : start + packed]
    if len(payload) < packed:
        raise Corrupt(
            f"it is cut off: the LZ4 block at byte {at} says {packed} bytes, {len(payload)} are there"
        )
    block = payload if method == 0x10 else unpacked(payload, plain)
    if xxh32(block, SEED) & 0xFFFFFFF != check and plain:
        raise Corrupt(f"the checksum of the LZ4 block at byte {at} is wrong")
    return block, start + packed


def unpacked(source: bytes, size: int) -> bytes:
    """One LZ4 block: literals, then copies of what was already written."""
    out, at = bytearray(), 0
    try:
        while True:
            token, at = source[at], at + 1
            count, at = _length(source, at, token >> 4)
            out += source[at : at + count]
            at += count
            if at >= len(source):
                break
            back, at = source[at] | source[at + 1] << 8, at + 2
            count, at = _length(source, at, token & 15)
            _copy(out, back, count + 4, size)
    except IndexError:
        raise Corrupt("an LZ4 block breaks off") from None
    if len(out) != size:
        raise Corrupt(f"an LZ4 block unpacks to {len(out)} bytes, not {size}")
    return bytes(out)


def _length(source: bytes, at: int, count: int) -> tuple[int, int]:
    if count == 15:
        while True:
            more, at = source[at], at + 1
            count += more
            if more != 255:
                break
    return count, at


def _copy(out: bytearray, back: int, count: int, size: int) -> None:
    start = len(out) - back
    if back == 0 or start < 0 or len(out) + count > size:
        raise Corrupt("an LZ4 block points outside itself")
    while count > 0:
        piece = out[start : start + count]
        out += piece
        start, count = start + len(piece), count - len(piece)


def xxh32(data: bytes, seed: int) -> int:
    """xxHash of 32 bits."""
    length, at = len(data), 0
    if length >= 16:
        acc = [(seed + _P1 + _P2) & _M, (seed + _P2) & _M, seed, (seed - _P1) & _M]
        whole = length - length % 16
        for lanes in struct.iter_unpack("<4I", data[:whole]):
            for i, lane in enumerate(lanes):
                value = (acc[i] + lane * _P2) & _M
                acc[i] = ((value << 13 | value >> 19) & _M) * _P1 & _M
        at = whole
        turned = zip(acc, (1, 7, 12, 18), strict=True)
        value = sum((lane << turn | lane >> 32 - turn) & _M for lane, turn in turned) & _M
    else:
        value = (seed + _P5) & _M
    return _finished((value + length) & _M, data[at:])


def _finished(value: int, rest: bytes) -> int:
    at = 0
    while at + 4 <= len(rest):
        value = (value + int.from_bytes(rest[at : at + 4], "little") * _P3) & _M
        value, at = ((value << 17 | value >> 15) & _M) * _P4 & _M, at + 4
    for byte in rest[at:]:
        value = (value + byte * _P5) & _M
        value = ((value << 11 | value >> 21) & _M) * _P1 & _M
    value = (value ^ value >> 15) * _P2 & _M
    value = (value ^ value >> 13) * _P3 & _M
    return value ^ value >> 16
