"""The compacting logs of file sources and of the file sink: one file a batch, every n-th holds all before it.

The rules are those of Spark's CompactibleFileStreamLog, the interval derived as it derives it. Pure.
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
#: A log whose newest part is longer than this is looked at from its end; Spark's own is a handful.
MAX_NEEDED = 10_000


@dataclass(frozen=True)
class FileLog:
    """One such log: batch → its path in the inventory, plain and compacted apart."""

    inventory: Inventory
    folder: str
    plain: Mapping[int, str]
    compacted: Mapping[int, str]

    @property
    def newest(self) -> int | None:
        return max((*self.plain, *self.compacted), default=None)

    @cached_property
    def interval(self) -> int:
        """How many batches a compaction holds. Without one it is Spark's default, unless the log outgrew that."""
        ids = sorted(self.compacted, reverse=True)
        if len(ids) >= 2:
            return ids[0] - ids[1]
        if ids:
            return derived_interval(ids[0])
        # A plain file where a compaction belongs: somebody set a longer interval.
        if DEFAULT_INTERVAL - 1 in self.plain:
            return max(self.newest or 0, DEFAULT_INTERVAL) + 2
        return DEFAULT_INTERVAL

    def is_compaction(self, batch: int) -> bool:
        return (batch + 1) % self.interval == 0

    def next_compaction(self, after: int) -> int:
        """The first batch above `after` that compacts: where a hole in the log is fallen into."""
        return (after + 1) // self.interval * self.interval + self.interval - 1

    @property
    def needed(self) -> range:
        """The batches that are read when the log is opened: the last compaction and all after it."""
        newest = self.newest
        if newest is None:
            return range(0)
        start = max(0, (newest + 1) // self.interval * self.interval - 1, newest - MAX_NEEDED)
        return range(start, newest + 1)

    def path_of(self, batch: int) -> str | None:
        """Where Spark looks for a batch; None where nothing is."""
        return (self.compacted if self.is_compaction(batch) else self.plain).get(batch)

    def name_of(self, batch: int) -> str:
        return f"{self.folder}/{batch}{COMPACT if self.is_compaction(batch) else ''}"

    @property
    def missing(self) -> list[int]:
        return [batch for batch in self.needed if self.path_of(batch) is None]

    @property
    def torn(self) -> dict[int, str]:
        """Batch → what is wrong with its entry, of those that are read."""
        found = ((batch, self.path_of(batch)) for batch in self.needed)
        judged = ((batch, fault(self.inventory, path)) for batch, path in found if path)
        return {batch: wrong for batch, wrong in judged if wrong}

    def entries(self, batch: int) -> list[dict[str, Any]]:
        """The records of one batch that could be read; of a compaction, all it holds."""
        path = self.plain.get(batch) or self.compacted.get(batch)
        text = self.inventory.text(path) if path else None
        return [] if text is None else records(text)[0]

    @cached_property
    def known(self) -> dict[str, dict[str, Any]]:
        """Path → its record, over all batches that were collected. Spark writes URIs: `%20` is undone."""
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
    plain: dict[int, str] = {}
    compacted: dict[int, str] = {}
    for name in inventory.names(folder):
        path = f"{folder}/{name}"
        number = name.removesuffix(COMPACT)
        if number.isascii() and number.isdigit() and len(number) < 19 and inventory.is_file(path):
            (compacted if name != number else plain)[int(number)] = path
    return FileLog(inventory, folder, plain, compacted)


def fault(inventory: Inventory, path: str) -> str | None:
    """Why an entry cannot be read; None where it can, or where its content was not collected."""
    if inventory.size(path) == 0:
        return "it is empty"
    text = inventory.text(path)
    return None if text is None else records(text)[1]


def records(text: str) -> tuple[list[dict[str, Any]], str | None]:
    """The records of an entry, and what is wrong with it."""
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
            return found, "it breaks off within a record"
        if isinstance(record, dict):
            found.append(record)
    return found, None


def is_file_source(log: FileLog) -> bool:
    """Whether the entries are those of a file source: a path each. (The rate source keeps its start time there.)"""
    newest = log.newest
    return newest is not None and any("path" in record for record in log.entries(newest))
