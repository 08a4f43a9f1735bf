"""The decoders against figures that others computed, and against damage."""

from __future__ import annotations

import contextlib
import io
import resource
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator

import cramjam
import pytest

from controlplane.checkpoints.decoding import change_files, checksums, lz4, schemas, snappy, sst, zips
from controlplane.checkpoints.decoding.errors import Corrupt
from controlplane.checkpoints.reading.state_tree import operators
from tests.unit.controlplane.checkpoints.goldens import golden


def test_crc32c_is_that_of_the_standard() -> None:
    assert checksums.crc32c(b"123456789") & 0xFFFFFFFF == 0xE3069283


def test_lz4_decompresses_literals_and_overlapping_copies() -> None:
    assert lz4.decompress_block(b"\x14a\x01\x00\x50bcdef", 14) == b"a" * 9 + b"bcdef"


def test_snappy_decompresses_literals_and_overlapping_copies() -> None:
    assert snappy.decompress_block(b"\x0a\x00a\x15\x01") == b"a" * 10


@pytest.mark.parametrize("block", [b"", b"\xff\xff\xff\xff\xff\xff", b"\x05\x00a\x15\x09", b"\x05\x10ab"])
def test_damaged_snappy_block_raises_corrupt(block: bytes) -> None:
    with pytest.raises(Corrupt):
        snappy.decompress_block(block)


@pytest.mark.parametrize(
    ("block", "size"),
    [
        (b"", 5),
        (b"\x14a\x01\x00\x50bcdef", 13),
        (b"\x14a\x01\x00\x50bcdef", 20),
        (b"\x14a\x09\x00\x50bcdef", 14),
        (b"\x14a\x01", 14),
        (b"\xff\xff", 400),
        (b"\x10a", -1),
    ],
)
def test_damaged_lz4_block_raises_corrupt(block: bytes, size: int) -> None:
    with pytest.raises(Corrupt):
        lz4.decompress_block(block, size)


def test_each_bit_flip_in_a_block_ends_in_bytes_or_corrupt() -> None:
    plain = b"".join(b"key-%d" % (i % 7) for i in range(80))
    packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    snapped = bytes(cramjam.snappy.compress_raw(plain))
    for bit in range(8 * len(packed)):
        with contextlib.suppress(Corrupt):
            assert len(lz4.decompress_block(flip(packed, bit), len(plain))) == len(plain)
    for bit in range(8 * len(snapped)):
        with contextlib.suppress(Corrupt):
            snappy.decompress_block(flip(snapped, bit))


def flip(data: bytes, bit: int) -> bytes:
    """The data with one bit inverted."""
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@pytest.fixture
def allocated() -> Iterator[Callable[[], int]]:
    """The peak of bytes that Python and the decoders' output buffers hold."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_lz4_block_that_claims_an_impossible_size_is_refused_before_allocation(
    allocated: Callable[[], int],
) -> None:
    claim = lz4.HEADER.pack(lz4.MAGIC, 0x2F, 8, lz4.MAX_BLOCK_BYTES, 0) + b"\x80abcdefg"
    plain, damage = lz4.decompress_stream(claim, 1 << 22)
    assert (plain, damage) == (b"", "an LZ4 block of 8 bytes claims to hold 33554432 bytes")
    assert allocated() < 1 << 20


def test_snappy_block_that_claims_an_impossible_size_is_refused_before_allocation() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for claim in (b"\xff\xff\xff\xff\x0f\x00a", b"\x80\x80\x80\x10\x00a"):
        with pytest.raises(Corrupt, match=r"a snappy block of [67] bytes claims"):
            snappy.decompress_block(claim)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_lz4_stream_of_blocks_packed_by_lz4_is_read_and_its_checksum_verified() -> None:
    plain = b"abc" * 1000
    packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    stream = lz4.HEADER.pack(lz4.MAGIC, 0x25, len(packed), len(plain), lz4.block_checksum(plain)) + packed
    assert lz4.decompress_stream(stream * 2, 1 << 22) == (plain * 2, None)
    wrong = lz4.HEADER.pack(lz4.MAGIC, 0x25, len(packed), len(plain), 1) + packed
    assert lz4.decompress_stream(stream + wrong, 1 << 22) == (
        plain,
        f"the checksum of the LZ4 block at byte {len(stream)} is wrong",
    )


def delta() -> bytes:
    return golden("agg").checkpoint.contents["state/0/0/5.delta"]


def test_a_delta_of_spark_is_read_to_its_end_mark() -> None:
    held = change_files.read(delta())
    assert held.complete and held.records == 2


@pytest.mark.parametrize("codec", ["lz4", "LZ4", "org.apache.spark.io.LZ4CompressionCodec"])
def test_a_codec_may_be_named_by_its_class(codec: str) -> None:
    assert change_files.read(delta(), codec).complete


def test_each_byte_of_a_delta_that_is_lost_but_the_end_block_is_noticed() -> None:
    whole = delta()
    for size in range(len(whole) - lz4.HEADER.size):
        with pytest.raises(Corrupt):
            change_files.read(whole[:size])
    assert change_files.read(whole[: -lz4.HEADER.size]).complete


def test_changelog_of_format_2_has_its_lineage() -> None:
    contents = golden("v2").checkpoint.contents
    path = "state/0/0/4_a3f65030-1870-44f7-a7a9-a263319a3c41.changelog"
    assert [version for version, _ in change_files.read(contents[path]).lineage] == [1, 2, 3]


def test_a_snapshot_names_its_files_with_their_sizes() -> None:
    held = zips.read(golden("rocks").checkpoint.contents["state/0/0/3.zip"])
    assert {size for _, size in held.files} == {1247}
    assert len(held.files) == 3


def test_a_zip_is_read_without_its_directory_as_java_reads_it() -> None:
    data = golden("rocks").checkpoint.contents["state/0/0/3.zip"]
    assert zips.read(data[: data.rindex(b"PK\x01\x02")]).files
    with pytest.raises(Corrupt, match="cut off"):
        zips.read(data[: len(data) // 2])


def test_a_zip_that_unpacks_to_very_much_is_not_kept_in_memory() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("MANIFEST", b"\0" * (8 << 20))
        made.writestr("metadata", 'v1\n{"sstFiles":[]}')
    assert zips.read(packed.getvalue()).files == ()


@pytest.mark.parametrize("version", ["4.3.0", "3.5.9"])
def test_a_flipped_bit_in_any_data_block_is_found_and_healthy_tables_are_not_blamed(version: str) -> None:
    contents = golden("rocks", version).checkpoint.contents
    tables = [data for path, data in contents.items() if path.endswith(".sst")]
    assert tables and [sst.find_damage(data) for data in tables] == [None] * len(tables)
    data = tables[0]
    assert sst.find_damage(data[:20] + bytes([data[20] ^ 1]) + data[21:]) is not None


def test_schema_has_fields_and_whether_the_state_is_keyed() -> None:
    (operator,) = operators(golden("agg", "3.5.9").checkpoint)
    (schema,) = operator.readable_schemas
    assert [(field.name, field.type, field.nullable) for field in schema.key] == [("k", "string", True)]
    assert [field.name for field in schema.value] == ["count", "sum"]
    assert not schema.keyless


def utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def test_a_schema_of_old_spark_and_one_without_a_key_are_read() -> None:
    none, item = (
        '{"type":"struct","fields":[]}',
        '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true}]}',
    )
    assert schemas.read(utf("v1") + utf(none) + utf(item)).keyless
    with pytest.raises(Corrupt, match="unknown version 'v9'"):
        schemas.read(utf("v9"))


def test_hadoop_checksum_file_locates_the_first_bad_chunk() -> None:
    contents = golden("agg").checkpoint.contents
    data, sums = contents["offsets/4"], contents["offsets/.4.crc"]
    assert checksums.first_bad_chunk(data, sums) is None
    assert checksums.first_bad_chunk(data[:-1] + b"?", sums) == 1024
    assert checksums.first_bad_chunk(data + b"x" * 600, sums) is not None
