"""How far a task has read its split: written to the staging folder by the task, read by the driver.

Spark reports a task only when it ends, and a compressed log is one task. The staging folder is the one place that
all tasks and the driver share; a commit removes it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from controlplane.errors import LakeError
from controlplane.lake.folders import LakeFolder
from controlplane.lake.staging import Staging

WRITE_SECONDS = 2.0
PROGRESS = "_progress"


@dataclass
class SplitProgress:
    """Counts the bytes that a task reads of its split and writes them at intervals. `name`: of the split.

    `events`: how many events were read so far. A failed write is ignored: it must not end the import.
    """

    staging: Staging
    name: str
    events: Callable[[], int] = lambda: 0
    clock: Callable[[], float] = time.monotonic
    bytes: int = 0

    def __post_init__(self) -> None:
        self._next = self.clock() + WRITE_SECONDS

    def __call__(self, size: int) -> None:
        """Count `size` more bytes."""
        self.bytes += size
        if self.clock() >= self._next:
            self._next = self.clock() + WRITE_SECONDS
            with contextlib.suppress(OSError, LakeError):
                path = f"{self.staging.path}/{PROGRESS}/{self.name}.json"
                self.staging.folder.write_json(path, [self.bytes, self.events()])


def read_progress(folder: LakeFolder, staged: Iterable[str], ended: Collection[str]) -> tuple[int, int]:
    """Bytes and events of the running splits below these staging folders. `ended`: paths of splits to leave out."""
    total_bytes = total_events = 0
    for path in staged:
        for name in _names(folder, f"{path}/{PROGRESS}"):
            if f"{path}/{name.removesuffix('.json')}" not in ended:
                with contextlib.suppress(OSError, LakeError, ValueError, TypeError):
                    read, events = folder.read_json(f"{path}/{PROGRESS}/{name}")
                    total_bytes, total_events = total_bytes + int(read), total_events + int(events)
    return total_bytes, total_events


def _names(folder: LakeFolder, path: str) -> list[str]:
    with contextlib.suppress(OSError, LakeError):
        return [name for name in folder.list_names(path) if not name.startswith(".")]
    return []
