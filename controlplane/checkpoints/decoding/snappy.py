"""Bare snappy blocks, as RocksDB stores them."""

from __future__ import annotations

import cramjam

from controlplane.checkpoints.decoding.errors import Corrupt

MAX_BLOCK_BYTES = 1 << 25
#: Three bytes of snappy copy at most 64, so a block that claims a larger ratio is damaged or hostile.
MAX_RATIO = 22


def decompress_block(packed: bytes) -> bytes:
    """Decompress one bare snappy block. Raises Corrupt, without allocating a hostile size."""
    try:
        size = cramjam.snappy.decompress_raw_len(packed)
        if size > min(MAX_BLOCK_BYTES, MAX_RATIO * len(packed)):
            raise Corrupt(f"a snappy block of {len(packed)} bytes claims to hold {size} bytes")
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError:
        raise Corrupt("a snappy block is damaged") from None
