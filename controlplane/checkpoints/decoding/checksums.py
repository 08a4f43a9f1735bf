"""Checksum files: Hadoop's hidden `.name.crc` on local file systems, and Spark's own `name.crc`.

CRC-32C is computed here because neither the standard library nor a dependency has it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

from controlplane.checkpoints.decoding.errors import Corrupt

_HADOOP_MAGIC = b"crc\x00"


def first_bad_chunk(data: bytes, sums: bytes) -> int | None:
    """The first byte of the first chunk whose CRC-32 differs from Hadoop's `sums`; None where all chunks match."""
    if sums[:4] != _HADOOP_MAGIC or len(sums) < 8:
        return None
    size = int.from_bytes(sums[4:8], "big")
    if not 0 < size <= 1 << 26:
        return None
    chunks = range(0, len(data), size)
    if len(sums) - 8 != 4 * len(chunks):
        return min(len(data), (len(sums) - 8) // 4 * size)
    for i, start in enumerate(chunks):
        wanted = int.from_bytes(sums[8 + 4 * i : 12 + 4 * i], "big")
        if zlib.crc32(data[start : start + size]) != wanted:
            return start
    return None


@dataclass(frozen=True)
class SparkChecksum:
    """Spark's checksum file (4.1 and later, state format 2)."""

    algorithm: str
    value: int
    size: int


def spark_checksum(data: bytes) -> SparkChecksum:
    """Parse Spark's checksum file. Raises Corrupt where Spark could not read it either."""
    try:
        held = json.loads(data)
        return SparkChecksum(str(held["algorithm"]), int(held["value"]), int(held["mainFileSize"]))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise Corrupt("its checksum file cannot be read" if data else "its checksum file is empty") from None


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C as a signed 32-bit integer, as Java's CRC32C gives it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC32C[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
