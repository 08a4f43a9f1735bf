"""Input files of file sources: those that the checkpoint names against those that exist. Pure.

Only listed folders are compared, because a path may be of another machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from posixpath import basename, dirname
from typing import Any

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.inventory.relocation import below, plain_path
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.file_logs import FileLog


@dataclass(frozen=True)
class InputFiles:
    """Input files of a checkpoint, by their absolute path after relocation."""

    view: CheckpointView

    def missing_folders(self) -> list[Inventory]:
        """Input folders named in the logs that were listed and do not exist."""
        named = [dirname(path) for path in self.paths]
        gone = [listed for listed in self.view.inputs if not listed.exists]
        return [listed for listed in gone if any(_holds(plain_path(listed.root), at) for at in named)]

    def paths_of(self, log: FileLog) -> list[str]:
        """The paths in one source's log."""
        return [self.view.relocated_path(path) for path in log.known]

    def in_flight(self) -> list[str]:
        """The paths that the uncommitted batch reads; empty where the newest batch is committed."""
        view = self.view
        if not view.in_flight or view.last is None:
            return []
        return [path for name, offset in view.last.offsets.items() for path in self._planned(name, offset)]

    def _planned(self, name: str, offset: str) -> Iterator[str]:
        view, log = self.view, self.view.sources.get(name)
        end = logs.log_offset(offset)
        start = logs.log_offset(view.previous.offsets.get(name)) if view.previous else None
        if log is None or end is None:
            return
        first = -1 if start is None else start
        # A compaction also holds the batches before it; each record has its batch.
        for path, record in log.known.items():
            if first < _batch_of(record) <= end:
                yield view.relocated_path(path)

    def is_missing(self, path: str) -> bool:
        """Whether a listed folder should hold this file and does not."""
        for listed in self.view.inputs:
            inside = below(path, self._origin(listed))
            if inside is not None and listed.exists and listed.complete:
                return inside not in listed.entries
        return False

    def _origin(self, listed: Inventory) -> str:
        """The path that the logs use for a listed folder: its own, or that of the original if it is a copy."""
        root = plain_path(listed.root)
        if any(below(path, root) is not None for path in self.paths):
            return root
        held = next((path for path in self.paths if basename(path) in listed.entries), None)
        return dirname(held) if held else root

    @cached_property
    def paths(self) -> list[str]:
        """All paths in the logs, after relocation."""
        return [path for log in self.view.sources.values() for path in self.paths_of(log)]

    def unread(self) -> list[float] | None:
        """Times of the input files that no log names, oldest first, in Unix seconds; None where no input was listed."""
        listed = [inventory for inventory in self.view.inputs if inventory.exists and inventory.complete]
        if not listed:
            return None
        seen = set(self.paths)
        return sorted(time for inventory in listed for time in self._unread_of(inventory, seen))

    def _unread_of(self, listed: Inventory, seen: set[str]) -> Iterator[float]:
        origin = self._origin(listed)
        for path, entry in listed.entries.items():
            if not entry.folder and _is_data(path) and f"{origin}/{path}" not in seen:
                yield entry.modified or 0.0


def _holds(folder: str, path: str) -> bool:
    return path == folder or below(path, folder) is not None


def _is_data(path: str) -> bool:
    """Whether Spark reads this path: it skips names that begin with `.` or `_`."""
    return not any(part.startswith((".", "_")) for part in path.split("/"))


def _batch_of(record: dict[str, Any]) -> int:
    batch = record.get("batchId")
    return batch if isinstance(batch, int) else -1
