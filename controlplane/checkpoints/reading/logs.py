"""Entries of the offset log and the commit log, parsed as Spark parses them. Pure; a torn entry is a value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VOID = "-"
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CODEC = "spark.sql.streaming.stateStore.compression.codec"
AGGREGATION_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
GROUPS_FORMAT = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
ROW_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
#: Key → what Spark assumes where the log lacks it: the behavior of the release before the key existed.
ASSUMED = {
    AGGREGATION_FORMAT: "1",
    JOIN_FORMAT: "1",
    GROUPS_FORMAT: "1",
    CODEC: "lz4",
    ROW_CHECKSUM: "false",
    WATERMARK_POLICY: "min",
}
_VERSION_LINE = re.compile(r"v(\d{1,9})")


@dataclass(frozen=True)
class Torn:
    """Why Spark cannot read an entry. `condition`: Spark's error condition. `version`: set where it is too new."""

    reason: str
    condition: str = ""
    version: int | None = None


@dataclass(frozen=True)
class OffsetEntry:
    """An entry of the offset log: source (its position, or its name in version 2) → offset as written."""

    version: int
    offsets: Mapping[str, str]
    conf: Mapping[str, str] = field(default_factory=dict)
    watermark_ms: int = 0
    timestamp_ms: int = 0
    blank_metadata: bool = False

    def setting(self, key: str) -> str | None:
        """A pinned setting, or what Spark assumes without it; None where the session's setting applies."""
        return self.conf.get(key, ASSUMED.get(key))

    @property
    def partitions(self) -> int | None:
        """The pinned number of shuffle partitions; None where there is none."""
        text = self.conf.get(PARTITIONS, "")
        return int(text) if text.isdigit() and len(text) < 10 else None


@dataclass(frozen=True)
class CommitEntry:
    """An entry of the commit log. `ids`: operator → partition → the ids of its stores (format version 2)."""

    version: int
    watermark_ms: int = 0
    ids: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


def read_offsets(text: str, newest: int) -> OffsetEntry | Torn:
    """Parse an entry of the offset log; `newest` is the highest log version that the target reads."""
    lines = text.splitlines()
    version = _version(lines, newest)
    if isinstance(version, Torn):
        return version
    if len(lines) < 2:
        return Torn("it holds only a version")
    if not lines[1].strip() and version >= 2:
        return Torn("its second line (metadata) is blank")
    if not lines[1].strip():
        return OffsetEntry(version, dict(enumerated(lines[2:])), blank_metadata=True)
    metadata = _object(lines[1])
    if metadata is None:
        return Torn("its second line (metadata) is not complete JSON")
    named = _named(lines[2:]) if version >= 2 else dict(enumerated(lines[2:]))
    if named is None:
        return Torn("a source line does not start with `id:`")
    conf = metadata.get("conf")
    return OffsetEntry(
        version,
        named,
        {str(k): str(v) for k, v in conf.items()} if isinstance(conf, dict) else {},
        _int(metadata.get("batchWatermarkMs")),
        _int(metadata.get("batchTimestampMs")),
    )


def enumerated(lines: list[str]) -> list[tuple[str, str]]:
    """(position as text, line) of each line."""
    return [(str(i), line) for i, line in enumerate(lines)]


def _named(lines: list[str]) -> dict[str, str] | None:
    parts = [line.partition(":") for line in lines if line]
    if any(not mark or source.lstrip().startswith("{") for source, mark, _ in parts):
        return None
    return {source: offset for source, _, offset in parts}


def read_commit(text: str, newest: int) -> CommitEntry | Torn:
    """Parse an entry of the commit log; a version alone is a complete entry."""
    lines = text.splitlines()
    version = _version(lines, newest)
    if isinstance(version, Torn):
        return version
    metadata = _object(lines[1]) if len(lines) > 1 and lines[1].strip() else {}
    if metadata is None:
        return Torn("its second line is not complete JSON")
    return CommitEntry(
        version, _int(metadata.get("nextBatchWatermarkMs")), _ids(metadata.get("stateUniqueIds"))
    )


def _ids(held: Any) -> dict[str, tuple[tuple[str, ...], ...]]:
    if not isinstance(held, dict):
        return {}
    return {
        str(operator): tuple(tuple(map(str, stores)) for stores in partitions if isinstance(stores, list))
        for operator, partitions in held.items()
        if isinstance(partitions, list)
    }


def _version(lines: list[str], newest: int) -> int | Torn:
    if not lines:
        return Torn("it is empty")
    match = _VERSION_LINE.fullmatch(lines[0].strip())
    if match is None:
        return Torn(f"its first line is {lines[0][:40]!r}, not a version", "MALFORMED_LOG_FILE")
    version = int(match[1])
    if version > newest:
        return Torn(
            f"it has version v{version}, the target reads up to v{newest}",
            "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
            version,
        )
    return version


def _object(text: str) -> dict[str, Any] | None:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, dict) else None


def _int(value: Any) -> int:
    """A Java long; any other value counts as 0."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return value if whole else 0


def log_offset(offset: str | None) -> int | None:
    """The log entry that a file source's offset names; None for other sources."""
    held = _object(offset or "")
    value = held.get("logOffset") if held and set(held) == {"logOffset"} else None
    return value if isinstance(value, int) else None


def whole(text: str) -> int | None:
    """The number that is all of the text; None for anything else."""
    held = text.strip()
    return int(held) if held.isascii() and held.isdigit() and len(held) < 19 else None


def torn_offset(offset: str) -> bool:
    """Whether an offset starts like JSON but cannot be parsed."""
    text = offset.strip()
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def positions(offset: str | None) -> dict[str, int]:
    """Every number in an offset by its path: `{"topic":{"0":5}}` is topic/0 → 5, a bare `4` is "" → 4."""
    try:
        held = json.loads(offset or "null")
    except (ValueError, RecursionError):
        return {}
    found: dict[str, int] = {}
    pending = [("", held)]
    while pending and len(found) < 100_000:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{path}/{key}" if path else str(key), inner) for key, inner in value.items()]
        elif isinstance(value, int) and not isinstance(value, bool):
            found[path] = value
    return found
