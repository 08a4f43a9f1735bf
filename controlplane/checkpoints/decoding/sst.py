"""SST files of RocksDB (block-based tables): verify the checksum of every index and data block.

The footer (53 bytes) leads to the index block, the index to the data blocks. Each block has a trailer of one
byte compression type and four bytes checksum.
"""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from controlplane.checkpoints.decoding import lz4, snappy
from controlplane.checkpoints.decoding.checksums import crc32c
from controlplane.checkpoints.decoding.errors import Corrupt

MAGIC = 0x88E241B785F4CFF7
FOOTER = 53
TRAILER = 5
CRC32C, XXH3 = 1, 4


def find_damage(data: bytes) -> str | None:
    """Describe the first damaged block; None where none is, or for a table format that is not supported here."""
    if len(data) < FOOTER or int.from_bytes(data[-8:], "little") != MAGIC:
        return None
    footer = data[-FOOTER:]
    checksum, version = footer[0], int.from_bytes(footer[-12:-8], "little")
    if checksum not in (CRC32C, XXH3) or not 1 <= version <= 5:
        return None
    try:
        return _first_damaged(data, footer, checksum)
    except IndexError:
        return "its index points outside the file"
    except Corrupt as error:
        return str(error)


def _first_damaged(data: bytes, footer: bytes, checksum: int) -> str | None:
    _, at = _handle(footer, 1)
    (start, size), _ = _handle(footer, at)
    if not _intact(data, start, size, checksum):
        return "the checksum of its index block is wrong"
    index = _decompressed(data, start, size)
    for start, size in _data_blocks(index) if index is not None else ():
        if not _intact(data, start, size, checksum):
            return f"the checksum of its data block at byte {start} is wrong"
    return None


def _intact(data: bytes, start: int, size: int, checksum: int) -> bool:
    """Whether a block and its compression byte match the checksum that follows. RocksDB masks CRC-32C and XXH3."""
    if start + size + TRAILER > len(data):
        raise IndexError
    block, last = data[start : start + size], data[start + size]
    stored = int.from_bytes(data[start + size + 1 : start + size + TRAILER], "little")
    if checksum == XXH3:
        return stored == (xxhash.xxh3_64_intdigest(block) & 0xFFFFFFFF) ^ (last * 0x6B9083D9 & 0xFFFFFFFF)
    value = crc32c(block + bytes([last])) & 0xFFFFFFFF
    return stored == ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _decompressed(data: bytes, start: int, size: int) -> bytes | None:
    """A block without its compression; None for a compression type that is not supported here."""
    block, method = data[start : start + size], data[start + size]
    if method == 0:
        return block
    if method == 1:
        return snappy.decompress_block(block)
    if method != 4:
        return None
    plain, at = _varint(block, 0)
    return lz4.decompress_block(block[at:], plain) if plain <= lz4.MAX_BLOCK_BYTES else None


def _data_blocks(index: bytes) -> Iterator[tuple[int, int]]:
    """The (start, size) handles in an index block. Keys share prefixes; values after a restart are deltas."""
    restarts = int.from_bytes(index[-4:], "little") & 0x7FFFFFFF
    end, at = len(index) - 4 - 4 * restarts, 0
    previous: tuple[int, int] | None = None
    while at < end:
        # Format 4 and later: shared, unshared, no value length; the value is a handle or a size difference.
        shared, at = _varint(index, at)
        unshared, at = _varint(index, at)
        at += unshared
        if shared == 0 or previous is None:
            previous, at = _handle(index, at)
        else:
            change, at = _varint(index, at)
            size = previous[1] + (change >> 1 ^ -(change & 1))
            previous = (previous[0] + previous[1] + TRAILER, size)
        yield previous


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    start, at = _varint(data, at)
    size, at = _varint(data, at)
    return (start, size), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
