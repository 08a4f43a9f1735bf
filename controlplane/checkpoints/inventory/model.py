"""The inventory of a checkpoint: what is there, and the bytes of the small files that the judge reads.

The one thing that passes from a collector (command line, server, driver) to the judge; JSON both ways.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FORMAT = "spark-checkpoint-inventory"
VERSION = 1
#: What a file system can tell: bytes in 63 bits, and seconds from 881 to 3058, which a date can hold.
MAX_FILE_BYTES = 2**63 - 1
MAX_TIMESTAMP = 2.0**35


class NotAnInventory(ValueError):
    """The document is no inventory, or one of a newer version; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder: bytes, and seconds since 1970 where the file system tells."""

    size: int = 0
    modified: float | None = None
    folder: bool = False


@dataclass(frozen=True)
class Inventory:
    """Everything below `root`. Paths are relative to it, parted by `/`; contents are whole files only.

    `relocations`: pairs (from, to) for the absolute paths inside the logs, where the checkpoint was copied.
    `complete` is False where the listing was cut short: then nothing may be called missing.
    `guessed`: nobody named this place; it was taken from a path in a log.
    """

    root: str
    entries: Mapping[str, FileEntry]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    collected_at: float = 0.0
    collector: str = ""
    exists: bool = True
    complete: bool = True
    guessed: bool = False
    root_modified: float | None = None
    errors: tuple[str, ...] = ()
    relocations: tuple[tuple[str, str], ...] = ()
    spark_version: str | None = None

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Folder → the names in it; the root is `""`. A folder that only its files betray is there too."""
        names: dict[str, set[str]] = {"": set()}
        for path, entry in self.entries.items():
            if entry.folder:
                names.setdefault(path, set())
            at = path
            while at:
                parent, _, name = at.rpartition("/")
                siblings = names.setdefault(parent, set())
                if name in siblings:
                    break
                siblings.add(name)
                at = parent
        return {folder: tuple(sorted(held)) for folder, held in names.items()}

    def names(self, folder: str) -> tuple[str, ...]:
        return self.children.get(folder, ())

    def is_folder(self, path: str) -> bool:
        return path in self.children

    def is_file(self, path: str) -> bool:
        entry = self.entries.get(path)
        return entry is not None and not entry.folder

    def size(self, path: str) -> int:
        entry = self.entries.get(path)
        return entry.size if entry else 0

    def text(self, path: str) -> str | None:
        """A file's content as Java would read it: what is no UTF-8 becomes a mark. None where not collected."""
        data = self.contents.get(path)
        return None if data is None else data.decode("utf-8", errors="replace")


def to_json(inventory: Inventory) -> dict[str, Any]:
    """A document that `from_json` turns back into an equal inventory."""
    entries = sorted(inventory.entries.items())
    return {
        "format": FORMAT,
        "version": VERSION,
        "root": inventory.root,
        "collected_at": inventory.collected_at,
        "collector": inventory.collector,
        "exists": inventory.exists,
        "complete": inventory.complete,
        "guessed": inventory.guessed,
        "root_modified": inventory.root_modified,
        "spark_version": inventory.spark_version,
        "errors": list(inventory.errors),
        "relocations": [list(pair) for pair in inventory.relocations],
        "files": [[path, entry.size, entry.modified] for path, entry in entries if not entry.folder],
        "folders": [[path, entry.modified] for path, entry in entries if entry.folder],
        "contents": {
            path: base64.b64encode(data).decode("ascii") for path, data in sorted(inventory.contents.items())
        },
    }


def from_json(document: Any) -> Inventory:
    """The inventory of a document. NotAnInventory where it is none."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotAnInventory(f'it is no inventory (no "format": "{FORMAT}")')
    if document.get("version") != VERSION:
        raise NotAnInventory(f"it has version {document.get('version')}, this program reads {VERSION}")
    try:
        return _built(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
        raise NotAnInventory(f"a part of it is missing or of the wrong kind: {error}") from None


def _built(document: dict[str, Any]) -> Inventory:
    entries = {str(path): FileEntry(_bytes(size), _seconds(at)) for path, size, at in document["files"]}
    entries |= {str(path): FileEntry(0, _seconds(at), folder=True) for path, at in document["folders"]}
    contents = document["contents"].items()
    return Inventory(
        root=str(document["root"]),
        entries=entries,
        contents={str(path): base64.b64decode(data, validate=True) for path, data in contents},
        collected_at=_bounded(float(document["collected_at"])),
        collector=str(document["collector"]),
        exists=bool(document["exists"]),
        complete=bool(document["complete"]),
        guessed=bool(document["guessed"]),
        root_modified=_seconds(document.get("root_modified")),
        errors=tuple(str(error) for error in document["errors"]),
        relocations=tuple((str(a), str(b)) for a, b in document["relocations"]),
        spark_version=document.get("spark_version") and str(document["spark_version"]),
    )


def _seconds(value: Any) -> float | None:
    return None if value is None else _bounded(float(value))


def _bounded(seconds: float) -> float:
    if not abs(seconds) <= MAX_TIMESTAMP:  # which is so of NaN too
        raise ValueError(f"{seconds:g} is no time")
    return seconds


def _bytes(value: Any) -> int:
    size = int(value)
    if not 0 <= size <= MAX_FILE_BYTES:
        raise ValueError("a file's size is below 0 or beyond 63 bits")
    return size
