"""Logs of file sources and of the file sink: one file per batch, every n-th is a compaction of all before it. Pure.

Follows Spark's CompactibleFileStreamLog, including how it derives the compaction interval.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from controlplane.checkpoints.inventory.model import Inventory

DEFAULT_INTERVAL = 10
COMPACT = ".compact"
#: At most this many entries since the last compaction are checked, the newest; Spark writes about ten.
MAX_NEEDED = 10_000


@dataclass(frozen=True)
class FileLog:
    """A compacting log: batch → path in the inventory, separately for plain entries and compactions."""

    inventory: Inventory
    folder: str
    plain: Mapping[int, str]
    compacted: Mapping[int, str]

    @property
    def newest(self) -> int | None:
        """The highest batch; None for an empty log."""
        return max((*self.plain, *self.compacted), default=None)

    @cached_property
    def interval(self) -> int:
        """Batches per compaction. Without a compaction it is Spark's default, unless the log is longer than that."""
        ids = sorted(self.compacted, reverse=True)
        if len(ids) >= 2:
            return ids[0] - ids[1]
        if ids:
            return derived_interval(ids[0])
        # A plain file where a compaction belongs: a longer interval is configured.
        if DEFAULT_INTERVAL - 1 in self.plain:
            return max(self.newest or 0, DEFAULT_INTERVAL) + 2
        return DEFAULT_INTERVAL

    def is_compaction(self, batch: int) -> bool:
        """Whether the entry of this batch is a compaction."""
        return (batch + 1) % self.interval == 0

    def next_compaction(self, after: int) -> int:
        """The first batch above `after` that compacts, and so reads the whole log: a gap makes it fail."""
        return (after + 1) // self.interval * self.interval + self.interval - 1

    @property
    def needed(self) -> range:
        """The batches that Spark reads when it opens the log: the last compaction and all after it."""
        newest = self.newest
        if newest is None:
            return range(0)
        start = max(0, (newest + 1) // self.interval * self.interval - 1, newest - MAX_NEEDED)
        return range(start, newest + 1)

    def path_of(self, batch: int) -> str | None:
        """The path of the entry that Spark reads for a batch; None where it is missing."""
        return (self.compacted if self.is_compaction(batch) else self.plain).get(batch)

    def name_of(self, batch: int) -> str:
        """The path that Spark expects for a batch, whether or not it exists."""
        return f"{self.folder}/{batch}{COMPACT if self.is_compaction(batch) else ''}"

    @property
    def missing(self) -> list[int]:
        """The needed batches without an entry."""
        return [batch for batch in self.needed if self.path_of(batch) is None]

    @property
    def torn(self) -> dict[int, str]:
        """Needed batch → why its entry cannot be read."""
        found = ((batch, self.path_of(batch)) for batch in self.needed)
        faults = ((batch, fault(self.inventory, path)) for batch, path in found if path)
        return {batch: wrong for batch, wrong in faults if wrong}

    def entries(self, batch: int) -> list[dict[str, Any]]:
        """The readable records of one batch; for a compaction, of all batches it holds."""
        path = self.plain.get(batch) or self.compacted.get(batch)
        text = self.inventory.text(path) if path else None
        return [] if text is None else records(text)[0]

    @cached_property
    def known(self) -> dict[str, dict[str, Any]]:
        """Path → its record, over all collected batches. Spark writes URIs; `%20` and the like are decoded."""
        held = sorted({*self.plain, *self.compacted})
        return {unquote(str(item.get("path"))): item for batch in held for item in self.entries(batch)}


def derived_interval(only: int, default: int = DEFAULT_INTERVAL) -> int:
    """The interval Spark infers from a single compaction."""
    size = only + 1
    if size <= default or default >= size / 2:
        return size
    candidates = range(default, min(size // 2, MAX_NEEDED) + 1)
    return next((i for i in candidates if size % i == 0), size)


def file_log(inventory: Inventory, folder: str) -> FileLog:
    """The log in a folder of the inventory; empty where the folder is missing."""
    plain: dict[int, str] = {}
    compacted: dict[int, str] = {}
    for name in inventory.names(folder):
        path = f"{folder}/{name}"
        number = name.removesuffix(COMPACT)
        if number.isascii() and number.isdigit() and len(number) < 19 and inventory.is_file(path):
            (compacted if name != number else plain)[int(number)] = path
    return FileLog(inventory, folder, plain, compacted)


def fault(inventory: Inventory, path: str) -> str | None:
    """Why an entry cannot be read; None where it can or where its content was not collected."""
    if inventory.size(path) == 0:
        return "it is empty"
    text = inventory.text(path)
    return None if text is None else records(text)[1]


def records(text: str) -> tuple[list[dict[str, Any]], str | None]:
    """The readable records of an entry, and why the rest cannot be read (None: all can)."""
    lines = text.splitlines()
    if not lines or not lines[0].strip().startswith("v"):
        return [], "its first line is not a version"
    found: list[dict[str, Any]] = []
    for line in lines[1:]:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return found, "it is cut off within a record"
        if isinstance(record, dict):
            found.append(record)
    return found, None


def is_file_source(log: FileLog) -> bool:
    """Whether the entries are those of a file source, with paths. The rate source keeps its start time there."""
    newest = log.newest
    return newest is not None and any("path" in record for record in log.entries(newest))
