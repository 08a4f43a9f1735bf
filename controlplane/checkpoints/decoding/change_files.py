"""Change files of state: deltas and snapshots of the HDFS-backed store, changelogs of RocksDB.

A record is an int32 key length, the key, an int32 value length (-1: deleted) and the value, big-endian. A key
length of -1 ends the file.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass

import zstandard

from controlplane.checkpoints.decoding import lz4
from controlplane.checkpoints.decoding.errors import Corrupt

#: Decompression stops here; what was read until then is checked.
MAX_DECOMPRESSED_BYTES = 4 << 20
#: First bytes of a compressed stream → Spark's name of the codec.
MAGICS = {b"LZ4Block": "lz4", b"\x28\xb5\x2f\xfd": "zstd", b"\x82SNAPPY\x00": "snappy", b"ZV": "lzf"}


@dataclass(frozen=True)
class ChangeFile:
    """The content of a change file. `lineage`: (version, id) of the files before it, in format version 2.

    `complete`: whether all records were counted; `digest`: of the records; `size`: bytes after decompression.
    """

    records: int
    digest: bytes
    lineage: tuple[tuple[int, str], ...] = ()
    complete: bool = True
    size: int = 0


def codec_of(data: bytes) -> str | None:
    """Spark's name of the codec that wrote these bytes; None for an unknown one."""
    return next((name for magic, name in MAGICS.items() if data.startswith(magic)), None)


def read(data: bytes, codec: str = "lz4") -> ChangeFile:
    """Read a delta, snapshot or changelog. Raises Corrupt where Spark could not read it to its end."""
    if not data:
        raise Corrupt("it is empty")
    short = codec.rpartition(".")[2].lower().removesuffix("compressioncodec")
    written_with = codec_of(data)
    if written_with != short and (written_with or short in MAGICS.values()):
        raise Corrupt(
            f"it is not {short}: "
            + (f"it was written with {written_with}" if written_with else "it has no codec's header")
        )
    if short not in ("lz4", "zstd"):
        return ChangeFile(0, b"", complete=False)
    plain, stopped = lz4.decompress_stream(data, MAX_DECOMPRESSED_BYTES) if short == "lz4" else _zstd(data)
    return _parsed(plain, stopped)


def _zstd(data: bytes) -> tuple[bytes, str | None]:
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        plain = reader.read(MAX_DECOMPRESSED_BYTES)
    except zstandard.ZstdError as error:
        return b"", f"zstd: {error}"
    return plain, None


def _parsed(plain: bytes, stopped: str | None) -> ChangeFile:
    version, lineage, at = _header(plain)
    if version in (2, 4):
        # Typed records of column families: only the decompression is checked.
        if stopped:
            raise Corrupt(stopped)
        return ChangeFile(0, b"", lineage, complete=False, size=len(plain))
    count, end = _records(plain, at)
    if end is None and len(plain) < MAX_DECOMPRESSED_BYTES:
        raise Corrupt(stopped or "it ends before its end mark")
    digest = hashlib.blake2b(plain[at:end], digest_size=16).digest()
    return ChangeFile(count, digest, lineage, complete=end is not None, size=len(plain))


def _header(plain: bytes) -> tuple[int, tuple[tuple[int, str], ...], int]:
    """Format version, lineage, and where the records begin. The first version has no header."""
    if plain[:3] != b"\x00\x02v" or not plain[3:4].isdigit():
        return 1, (), 0
    version = int(plain[3:4])
    if version < 3:
        return version, (), 4
    size = int.from_bytes(plain[4:6], "big")
    try:
        items = json.loads(plain[6 : 6 + size])
        lineage = tuple((int(item["version"]), str(item["checkpointUniqueId"])) for item in items)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise Corrupt("its lineage cannot be read") from None
    return version, lineage, 6 + size


def _records(plain: bytes, at: int) -> tuple[int, int | None]:
    """The number of records, and the position of the end mark; None where the bytes end before it."""
    count, length = 0, struct.Struct(">i")
    while at + 4 <= len(plain):
        (key,) = length.unpack_from(plain, at)
        if key == -1:
            return count, at
        if key < 0:
            raise Corrupt(f"record {count} has a key of {key} bytes")
        at += 4 + key
        if at + 4 > len(plain):
            break
        (value,) = length.unpack_from(plain, at)
        at += 4 + max(value, 0)
        count += 1
    return count, None
