"""Snappy's block format: a length, then literals and copies. Pure Python, for blocks of a few kilobytes."""

from __future__ import annotations

from controlplane.checkpoints.decoding.errors import Corrupt

MOST_BLOCK = 1 << 25


def unpacked(source: bytes) -> bytes:
    """Corrupt where the block breaks off, points outside itself, or has another length than it says."""
    try:
        return _unpacked(source)
    except IndexError:
        raise Corrupt("a snappy block breaks off") from None


def _unpacked(source: bytes) -> bytes:
    size, at = _varint(source)
    out = bytearray()
    while at < len(source) and len(out) <= size:
        tag, at = source[at], at + 1
        if tag & 3 == 0:
            count, at = _literal(source, at, tag >> 2)
            out += source[at : at + count]
            at += count
        else:
            count, back, at = _copy(source, at, tag)
            start = len(out) - back
            if back == 0 or start < 0:
                raise Corrupt("a snappy block points outside itself")
            for i in range(count):
                out.append(out[start + i])
    if len(out) != size:
        raise Corrupt(f"a snappy block unpacks to {len(out)} bytes, not {size}")
    return bytes(out)


def _varint(source: bytes) -> tuple[int, int]:
    value = shift = at = 0
    while True:
        byte, at = source[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if value > MOST_BLOCK:
        raise Corrupt("a snappy block says an impossible length")
    return value, at


def _literal(source: bytes, at: int, count: int) -> tuple[int, int]:
    if count < 60:
        return count + 1, at
    extra = count - 59
    return int.from_bytes(source[at : at + extra], "little") + 1, at + extra


def _copy(source: bytes, at: int, tag: int) -> tuple[int, int, int]:
    """Count, distance, and where the next tag is."""
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | source[at], at + 1
    width = 2 if tag & 3 == 2 else 4
    return (tag >> 2) + 1, int.from_bytes(source[at : at + width], "little"), at + width
