"""Schema files of state stores: Java's `writeUTF` of a version, then key and value schema as JSON.

Version 1 has one string per schema, version 2 a count of chunks before them. Version 3 (`_stateSchema`) is
not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from controlplane.checkpoints.decoding.errors import Corrupt

#: A schema of a thousand wide columns has fewer chunks.
MAX_CHUNKS = 10_000


@dataclass(frozen=True)
class Field:
    """A column of a state schema; `type` is Spark's JSON type, as text."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class StateSchema:
    """Key and value schema of a state store."""

    key: tuple[Field, ...]
    value: tuple[Field, ...]

    @property
    def keyless(self) -> bool:
        """Whether all rows share one key and so one partition, as in an aggregation without a grouping key."""
        return all(field.type == "void" or field.name == "sessionStartTime" for field in self.key)


def read(data: bytes) -> StateSchema:
    """Read a schema file. Raises Corrupt where Spark could not read it, also for an empty file."""
    reader = _Reader(data)
    version = reader.text()
    if version not in ("v1", "v2"):
        raise Corrupt(f"it has the unknown version {version[:20]!r}")
    read_text = reader.text if version == "v1" else reader.chunks
    key, value = read_text(), read_text()
    return StateSchema(_fields(key), _fields(value))


def _fields(text: str) -> tuple[Field, ...]:
    try:
        fields = json.loads(text)["fields"]
        return tuple(
            Field(str(f["name"]), json.dumps(f["type"]).strip('"'), bool(f["nullable"])) for f in fields
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise Corrupt("a schema in it is not Spark's JSON") from None


class _Reader:
    """Reads bytes as Java's DataInputStream does."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def text(self) -> str:
        size = int.from_bytes(self._take(2), "big")
        return self._take(size).decode("utf-8", errors="replace")

    def chunks(self) -> str:
        count = int.from_bytes(self._take(4), "big")
        if count > MAX_CHUNKS:
            raise Corrupt(f"it claims a schema of {count} parts")
        return "".join(self.text() for _ in range(count))

    def _take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            raise Corrupt("it is empty" if not self.data else f"it is cut off at byte {len(self.data)}")
        self.at += size
        return piece
