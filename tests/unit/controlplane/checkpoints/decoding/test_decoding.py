"""The decoders against figures that others computed, and against damage."""

from __future__ import annotations

import io
import zipfile

import pytest

from controlplane.checkpoints.decoding import change_files, checksums, lz4, schemas, snappy, sst, xxh3, zips
from controlplane.checkpoints.decoding.errors import Corrupt
from controlplane.checkpoints.reading.state_tree import operators
from tests.unit.controlplane.checkpoints.goldens import golden

COUNTING = bytes(i % 251 for i in range(3000))


# Figures from the reference library xxhash 0.8.
@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (0, 0x2D06800538D394C2),
        (1, 0xC44BDFF4074EECDB),
        (3, 0x5F4299FC161C9CBB),
        (4, 0x60DAB036A58211F2),
        (8, 0x3A1C2D7C85AF88F8),
        (9, 0xE9612598145BB9DC),
        (16, 0x8355E3A6F61770DB),
        (17, 0x9EF341A99DE37328),
        (128, 0x85C6174C7FF4C46B),
        (129, 0xEC7642B431BA3E5A),
        (240, 0x375A384D957FE865),
        (241, 0x02E8CD95421C6D02),
        (1024, 0xE5D78BAFA45B2AA5),
        (1025, 0xE95C42288F28186E),
        (3000, 0x1B846747012C24AA),
    ],
)
def test_xxh3_is_that_of_the_reference(size: int, wanted: int) -> None:
    assert xxh3.hash64(COUNTING[:size]) == wanted


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (0, 0x8D3B42D8),
        (1, 0xBA2ACFB9),
        (15, 0xF7904B87),
        (16, 0x91507297),
        (17, 0x568606E1),
        (100, 0x6BCB75C0),
        (3000, 0x65AA0143),
    ],
)
def test_xxh32_is_that_of_the_reference(size: int, wanted: int) -> None:
    assert lz4.xxh32(COUNTING[:size], lz4.SEED) == wanted


def test_crc32c_is_that_of_the_standard() -> None:
    assert checksums.crc32c(b"123456789") & 0xFFFFFFFF == 0xE3069283


def test_lz4_unpacks_literals_and_overlapping_copies() -> None:
    assert lz4.unpacked(b"\x14a\x01\x00\x50bcdef", 14) == b"a" * 9 + b"bcdef"


def test_snappy_unpacks_literals_and_overlapping_copies() -> None:
    assert snappy.unpacked(b"\x0a\x00a\x15\x01") == b"a" * 10


@pytest.mark.parametrize("block", [b"", b"\xff\xff\xff\xff\xff\xff", b"\x05\x00a\x15\x09", b"\x05\x10ab"])
def test_a_damaged_snappy_block_is_corrupt(block: bytes) -> None:
    with pytest.raises(Corrupt):
        snappy.unpacked(block)


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


def test_a_changelog_of_format_2_tells_its_lineage() -> None:
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
    assert tables and [sst.fault(data) for data in tables] == [None] * len(tables)
    data = tables[0]
    assert sst.fault(data[:20] + bytes([data[20] ^ 1]) + data[21:]) is not None


def test_a_schema_tells_fields_and_whether_the_state_has_a_key() -> None:
    (operator,) = operators(golden("agg", "3.5.9").checkpoint)
    (schema,) = operator.readable_schemas
    assert [(field.name, field.type, field.nullable) for field in schema.key] == [("k", "string", True)]
    assert [field.name for field in schema.value] == ["count", "sum"]
    assert not schema.keyless


def utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def test_a_schema_of_old_spark_and_one_without_a_key_are_read() -> None:
    none, one = (
        '{"type":"struct","fields":[]}',
        '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true}]}',
    )
    assert schemas.read(utf("v1") + utf(none) + utf(one)).keyless
    with pytest.raises(Corrupt, match="unknown version 'v9'"):
        schemas.read(utf("v9"))


def test_hadoops_checksum_file_tells_the_first_bad_chunk() -> None:
    contents = golden("agg").checkpoint.contents
    data, sums = contents["offsets/4"], contents["offsets/.4.crc"]
    assert checksums.first_bad_chunk(data, sums) is None
    assert checksums.first_bad_chunk(data[:-1] + b"?", sums) == 1024
    assert checksums.first_bad_chunk(data + b"x" * 600, sums) is not None
