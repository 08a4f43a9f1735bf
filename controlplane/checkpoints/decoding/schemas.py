"""The schema of a state store: Java's `writeUTF` of a version, then key and value schema as JSON.

Version 1 has one string each, version 2 a count of chunks before them; version 3 (`_stateSchema`) is Avro-like
and its head alone is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from controlplane.checkpoints.decoding.errors import Corrupt

#: A schema of a thousand wide columns is far below.
MAX_CHUNKS = 10_000


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class StateSchema:
    key: tuple[Field, ...]
    value: tuple[Field, ...]

    @property
    def keyless(self) -> bool:
        """Whether all rows share one key, and so one partition: an aggregation without a grouping."""
        return all(field.type == "void" or field.name == "sessionStartTime" for field in self.key)


def read(data: bytes) -> StateSchema:
    """Corrupt where Spark could not read it (an empty file raises there too)."""
    reader = _Reader(data)
    version = reader.text()
    if version not in ("v1", "v2"):
        raise Corrupt(f"it has the unknown version {version[:20]!r}")
    once = version == "v1"
    key, value = reader.text() if once else reader.chunks(), reader.text() if once else reader.chunks()
    return StateSchema(_fields(key), _fields(value))


def _fields(text: str) -> tuple[Field, ...]:
    try:
        fields = json.loads(text)["fields"]
        return tuple(
            Field(str(f["name"]), json.dumps(f["type"]).strip('"'), bool(f["nullable"])) for f in fields
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise Corrupt("a schema in it is no JSON of Spark's") from None


class _Reader:
    """Java's DataInputStream over bytes."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def text(self) -> str:
        size = int.from_bytes(self._taken(2), "big")
        return self._taken(size).decode("utf-8", errors="replace")

    def chunks(self) -> str:
        count = int.from_bytes(self._taken(4), "big")
        if count > MAX_CHUNKS:
            raise Corrupt(f"it says that a schema has {count} parts")
        return "".join(self.text() for _ in range(count))

    def _taken(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            raise Corrupt("it is empty" if not self.data else f"it breaks off at byte {len(self.data)}")
        self.at += size
        return piece
