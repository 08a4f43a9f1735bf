"""The inventory of a checkpoint: a listing, and the contents of the small files that the analyzer reads.

Collectors (command line, server, driver) produce it, the analyzer reads it; `to_json` and `from_json` convert
it.
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
#: Limits of plausible values: sizes in 63 bits, and times from the years 881 to 3058, which a date can hold.
MAX_FILE_BYTES = 2**63 - 1
MAX_TIMESTAMP = 2.0**35


class NotAnInventory(ValueError):
    """The document is not an inventory, or of a newer version; the message is a clause about "it"."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder: bytes, and Unix seconds; None where the file system does not know."""

    size: int = 0
    modified: float | None = None
    folder: bool = False


@dataclass(frozen=True)
class Inventory:
    """Everything below `root`, by paths relative to it. Contents are whole files only.

    `relocations`: (from, to) pairs for the absolute paths inside the logs of a copied checkpoint.
    `complete`: False where the listing was cut short; nothing may then be called missing.
    `guessed`: the place was derived from a path in a log, not named by the user.
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
        """Folder → the names in it; the root is `""`. Includes folders known only by their files."""
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
        """The names in a folder, sorted; empty where it does not exist."""
        return self.children.get(folder, ())

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return path in self.children

    def is_file(self, path: str) -> bool:
        """Whether the path is a file."""
        entry = self.entries.get(path)
        return entry is not None and not entry.folder

    def size(self, path: str) -> int:
        """Bytes of a file; 0 where it does not exist."""
        entry = self.entries.get(path)
        return entry.size if entry else 0

    def text(self, path: str) -> str | None:
        """A file's content as Java decodes it: invalid UTF-8 becomes U+FFFD. None where it was not collected."""
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
    """Parse a document. Raises NotAnInventory."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotAnInventory(f'it is not an inventory (no "format": "{FORMAT}")')
    if document.get("version") != VERSION:
        raise NotAnInventory(
            f"it has version {document.get('version')}, but this program reads version {VERSION}"
        )
    try:
        return _built(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
        raise NotAnInventory(f"a part of it is missing or has the wrong type: {error}") from None


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
    if not abs(seconds) <= MAX_TIMESTAMP:  # NaN fails this too
        raise ValueError(f"{seconds:g} is no time")
    return seconds


def _bytes(value: Any) -> int:
    size = int(value)
    if not 0 <= size <= MAX_FILE_BYTES:
        raise ValueError("a file's size is negative or exceeds 63 bits")
    return size
