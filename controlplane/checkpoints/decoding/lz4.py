"""LZ4 blocks, and the block stream of lz4-java in which Spark writes state files.

The stream's framing (magic, token, lengths, xxHash) is lz4-java's own; the package `cramjam` reads LZ4 frames
and bare blocks only.
"""

from __future__ import annotations

import struct

import cramjam
import xxhash

from controlplane.checkpoints.decoding.errors import Corrupt

MAGIC = b"LZ4Block"
#: Magic, token, packed bytes, plain bytes, checksum.
HEADER = struct.Struct("<8sBiii")
#: lz4-java's seed; of each checksum it keeps 28 bits.
CHECKSUM_SEED, CHECKSUM_BITS = 0x9747B28C, 0x0FFFFFFF
#: The format allows 32 MB a block; Spark writes 32 KB.
MAX_BLOCK_BYTES = 1 << 25
#: A byte of LZ4 adds at most 255 bytes, so a block that claims more is damaged or hostile.
MAX_RATIO = 255
_STORED, _COMPRESSED = 0x10, 0x20


def decompress_stream(data: bytes, limit: int) -> tuple[bytes, str | None]:
    """Return the bytes up to the first damage, and the damage (None: the stream is whole).

    Reading ends with the first block that reaches `limit` bytes. As in lz4-java, a file that ends between two
    blocks is whole, with or without the empty end block.
    """
    out, at = bytearray(), 0
    while len(data) - at >= HEADER.size and len(out) < limit:
        try:
            block, at = _read_block(data, at)
        except Corrupt as error:
            return bytes(out), str(error)
        out += block
    if 0 < len(data) - at < HEADER.size and len(out) < limit:
        return bytes(out), "it ends within the header of a block"
    return bytes(out), None


def _read_block(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the block that starts at byte `at`, and where the next block starts."""
    magic, token, packed, plain, checksum = HEADER.unpack_from(data, at)
    method, start = token & 0xF0, at + HEADER.size
    if magic != MAGIC or method not in (_STORED, _COMPRESSED):
        raise Corrupt(f"no LZ4 block at byte {at}")
    in_bounds = 0 <= plain <= MAX_BLOCK_BYTES and 0 <= packed <= MAX_BLOCK_BYTES
    if not in_bounds or (method == _STORED and plain != packed):
        raise Corrupt(f"the LZ4 block at byte {at} has impossible lengths")
    payload = data[start : start + packed]
    if len(payload) < packed:
        raise Corrupt(
            f"it is cut off: the LZ4 block at byte {at} claims {packed} bytes, {len(payload)} are there"
        )
    block = payload if method == _STORED or not plain else decompress_block(payload, plain)
    if plain and block_checksum(block) != checksum:
        raise Corrupt(f"the checksum of the LZ4 block at byte {at} is wrong")
    return block, start + packed


def block_checksum(block: bytes) -> int:
    """Return the checksum that lz4-java stores with a block of its stream."""
    return xxhash.xxh32_intdigest(block, CHECKSUM_SEED) & CHECKSUM_BITS


def decompress_block(packed: bytes, size: int) -> bytes:
    """Decompress one bare LZ4 block of exactly `size` plain bytes. Raises Corrupt, without allocating a hostile size."""
    if not 0 <= size <= min(MAX_BLOCK_BYTES, MAX_RATIO * len(packed)):
        raise Corrupt(f"an LZ4 block of {len(packed)} bytes claims to hold {size} bytes")
    plain = bytearray(size)
    try:
        written = cramjam.lz4.decompress_block_into(packed, plain, output_len=size)
    except cramjam.DecompressionError:
        raise Corrupt("an LZ4 block is damaged") from None
    if written != size:
        raise Corrupt(f"an LZ4 block holds {written} bytes, not {size}")
    return bytes(plain)
