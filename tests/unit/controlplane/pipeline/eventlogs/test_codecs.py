"""Compressed logs are decoded in pieces; of a damaged or torn one comes all that can be had, then what is wrong.

That they are read as Spark itself writes them is tested in `tests/spark/test_history_import.py`.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
import xxhash
import zstandard

from controlplane.pipeline.eventlogs.codecs import CHUNK_BYTES, CODECS, CorruptStream, TruncatedStream

PLAIN = b"".join(b'{"Event":"SparkListenerTaskEnd","number":%d}\n' % number for number in range(60_000))
FLUSH_BLOCK = zstandard.COMPRESSOBJ_FLUSH_BLOCK
BLOCK = 32 << 10
BLOCKS = [PLAIN[at : at + BLOCK] for at in range(0, len(PLAIN), BLOCK)]


def lz4(blocks: list[bytes]) -> bytes:
    packed = [bytes(cramjam.lz4.compress_block(block, store_size=False)) for block in blocks]
    heads = [
        struct.pack("<8sBiiI", b"LZ4Block", 0x25, len(item), len(block), checksum(block))
        for item, block in zip(packed, blocks, strict=True)
    ]
    body = b"".join(head + item for head, item in zip(heads, packed, strict=True))
    return body + struct.pack("<8sBiiI", b"LZ4Block", 0x15, 0, 0, 0)


def checksum(block: bytes) -> int:
    """As lz4-java writes it; that it is so is seen with Spark's own files."""
    return xxhash.xxh32_intdigest(block, 0x9747B28C) & 0x0FFFFFFF


def snappy(blocks: list[bytes]) -> bytes:
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return (
        b"\x82SNAPPY\0"
        + struct.pack(">ii", 1, 1)
        + b"".join(struct.pack(">i", len(item)) + item for item in packed)
    )


def zstd(blocks: list[bytes]) -> bytes:
    return b"".join(zstandard.ZstdCompressor().compress(block) for block in blocks)


def lzf(blocks: list[bytes]) -> bytes:
    """Raw chunks, and one that is packed: "ab" as literals, then 9 bytes copied from 2 before."""
    raw = b"".join(b"ZV\0" + struct.pack(">H", len(block)) + block for block in blocks)
    return raw + b"ZV\1" + struct.pack(">HH", 6, 11) + b"\x01ab" + b"\xe0\x00\x01"


MAKERS: dict[str, Callable[[list[bytes]], bytes]] = {"lz4": lz4, "snappy": snappy, "zstd": zstd}


def decoded(codec: str, data: bytes) -> tuple[bytes, str | None]:
    """All that comes, and what was said in the end."""
    pieces = []
    try:
        for piece in CODECS[codec](io.BytesIO(data)):
            assert len(piece) <= 2 * CHUNK_BYTES
            pieces.append(piece)
    except CorruptStream as error:
        return b"".join(pieces), str(error)
    return b"".join(pieces), None


@pytest.mark.parametrize("codec", MAKERS)
def test_a_whole_stream_is_decoded_whole(codec: str) -> None:
    assert decoded(codec, MAKERS[codec](BLOCKS)) == (PLAIN, None)


@pytest.mark.parametrize("codec", MAKERS)
def test_streams_that_follow_one_another_are_one(codec: str) -> None:
    assert decoded(codec, MAKERS[codec](BLOCKS[:2]) + MAKERS[codec](BLOCKS[2:])) == (PLAIN, None)


def test_what_is_not_compressed_is_handed_on_in_pieces() -> None:
    assert decoded("", PLAIN) == (PLAIN, None)


def test_lzf_chunks_are_decoded() -> None:
    assert decoded("lzf", lzf([b"one\n", b"two\n"])) == (b"one\ntwo\n" + b"ab" * 5 + b"a", None)


@pytest.mark.parametrize("codec", MAKERS)
def test_of_a_stream_that_was_cut_off_all_whole_blocks_come(codec: str) -> None:
    data = MAKERS[codec](BLOCKS)
    found, printed = decoded(codec, data[: len(data) // 2])
    assert PLAIN.startswith(found)
    assert len(PLAIN) * 0.4 < len(found) < len(PLAIN)
    assert (
        printed == "the last frame is truncated"
        if codec == "zstd"
        else printed == "the file is truncated within a block"
    )


def a_frame(**parameters: Any) -> bytes:
    """Several blocks, flushed one by one as Spark does after each event; the last of them one byte many times."""
    packing = zstandard.ZstdCompressor(**parameters).compressobj()
    blocks = [
        packing.compress(line) + packing.flush(FLUSH_BLOCK) for line in (b"one\n", b"two\n" * 99, b"3" * 5000)
    ]
    return b"".join(blocks) + packing.flush()


@pytest.mark.parametrize(
    "frame",
    [a_frame(), a_frame(write_checksum=True), a_frame(write_content_size=False, level=19), zstd([b""])],
    ids=["flushed", "checksum", "no size", "empty"],
)
def test_a_zstd_stream_is_whole_at_the_end_of_a_frame_and_nowhere_else(frame: bytes) -> None:
    skipped = b"\x53\x2a\x4d\x18\x05\0\0\0abcde"
    stream, ends = (
        frame + skipped + frame,
        {0, len(frame), len(frame + skipped), len(frame + skipped + frame)},
    )
    whole = {size for size in range(len(stream) + 1) if decoded("zstd", stream[:size])[1] is None}
    assert whole == ends


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_zstd_stream_that_comes_in_small_pieces_is_followed_all_the_same(size: int) -> None:
    class Slow(io.BytesIO):
        def read(self, most: int | None = -1, /) -> bytes:
            return super().read(min(size, most) if most and most > 0 else size)

    stream = a_frame(write_checksum=True) * 2
    assert b"".join(CODECS["zstd"](Slow(stream))) == (b"one\n" + b"two\n" * 99 + b"3" * 5000) * 2
    with pytest.raises(TruncatedStream):
        list(CODECS["zstd"](Slow(stream[:-1])))


def test_a_flipped_bit_in_the_text_of_an_lz4_block_is_found_by_its_checksum() -> None:
    data = bytearray(lz4(BLOCKS[:3]))
    place = bytes(data).index(b"TaskEnd")
    data[place] ^= 1
    assert decoded("lz4", bytes(data)) == (b"", "the checksum of an LZ4 block does not match")


@pytest.mark.parametrize("codec", MAKERS)
def test_what_came_before_a_damaged_block_comes(codec: str) -> None:
    first, rest = MAKERS[codec](BLOCKS[:20]), bytearray(MAKERS[codec](BLOCKS[20:]))
    end = 21 if codec == "lz4" else 0
    rest[0:30] = b"\xff" * 30
    found, printed = decoded(codec, first[: len(first) - end] + bytes(rest))
    whole = b"".join(BLOCKS[:20])
    assert found == (whole[: whole.rfind(b"\n") + 1] if codec == "zstd" else whole)
    assert printed


@pytest.mark.parametrize("codec", [*MAKERS, "lzf"])
@pytest.mark.parametrize("seed", range(20))
def test_no_damage_whatever_ends_in_anything_but_a_sentence(codec: str, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray((MAKERS | {"lzf": lzf})[codec](BLOCKS[:4]))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    _, printed = decoded(codec, bytes(data[: chance.randint(1, len(data))]))
    assert printed is None or (printed and "\n" not in printed)


def test_a_block_with_a_huge_declared_size_is_damaged_and_not_allocated() -> None:
    head = struct.pack("<8sBiiI", b"LZ4Block", 0x25, 10, 2**31 - 1, 0)
    assert decoded("lz4", head + b"x" * 10) == (b"", "an LZ4 block has impossible lengths")
    assert decoded("snappy", snappy([]) + b"\x7f\xff\xff\xff")[1] == "a snappy block has an impossible length"
