"""Event data as zstd blobs, compressed with a dictionary trained on progress reports.

A single progress report compresses badly, as most of it are names that every report repeats. The dictionary holds
those names; each blob is stored with its dictionary's id. Dictionaries are added but never changed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
import zstandard
from sqlalchemy.engine import Connection

from controlplane.store.tables import dictionaries, storable
from listeners.protocol import wire

#: Beside the dictionary level 6 saves six percent more and takes four times as long.
LEVEL = 3
#: Limit of an unpacked event: a line has at most 1 MiB, and JSON escapes take up to six bytes per byte.
MAX_UNPACKED = 16 * 1024 * 1024
#: Dictionary of a new store: trained on progress reports of Spark 4.3 from eight kinds of queries and other events.
BUILT_IN_DICTIONARY = Path(__file__).parent / "progress.zdict"


def pack_json(value: Any) -> bytes:
    """A JSON value as compact UTF-8; characters that UTF-8 cannot encode become U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate
        text = wire.dumps(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return storable(text).encode("utf-8")


class Packer:
    """Compressor with a dictionary; thread-safe. `dictionary` is the dictionary's id, 0 for none."""

    def __init__(self, dictionary: int = 0, content: bytes = b""):
        self.dictionary = dictionary
        self._dict = zstandard.ZstdCompressionDict(content) if content else None
        if self._dict is not None:
            self._dict.precompute_compress(level=LEVEL)
        self._local = threading.local()

    def pack(self, data: bytes) -> bytes:
        """Compress one value."""
        return self._compressor().compress(data)

    def _compressor(self) -> zstandard.ZstdCompressor:
        compressor: zstandard.ZstdCompressor | None = getattr(self._local, "compressor", None)
        if compressor is None:
            options: dict[str, Any] = {"dict_data": self._dict} if self._dict is not None else {}
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_dict_id=False, **options)
            self._local.compressor = compressor
        return compressor


class Unpacker:
    """Decompressor for one connection and one thread; reads each dictionary once."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._by_id: dict[int, zstandard.ZstdDecompressor] = {}

    def unpack(self, dictionary: int, blob: bytes) -> dict[str, Any]:
        """The JSON object of a blob that was compressed with this dictionary id."""
        value = wire.loads(self._decompressor(dictionary).decompress(blob, max_output_size=MAX_UNPACKED))
        assert isinstance(value, dict)
        return value

    def _decompressor(self, dictionary: int) -> zstandard.ZstdDecompressor:
        known = self._by_id.get(dictionary)
        if known is None:
            known = self._by_id[dictionary] = self._make(dictionary)
        return known

    def _make(self, dictionary: int) -> zstandard.ZstdDecompressor:
        if dictionary == 0:
            return zstandard.ZstdDecompressor()
        query = sa.select(dictionaries.c.content).where(dictionaries.c.id == dictionary)
        content = self._connection.execute(query).scalar_one()
        return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(content))


def newest_packer(connection: Connection) -> Packer:
    """A packer with the newest dictionary."""
    query = sa.select(dictionaries.c.id, dictionaries.c.content).order_by(dictionaries.c.id.desc()).limit(1)
    row = connection.execute(query).first()
    return Packer(row.id, row.content) if row else Packer()


def add_dictionary(connection: Connection, content: bytes, at: float) -> int:
    """Store a dictionary and return its id."""
    row: Mapping[str, Any] = {"created_at": at, "content": content}
    result = connection.execute(sa.insert(dictionaries).values(row).returning(dictionaries.c.id))
    return int(result.scalar_one())
