"""The inventory of a checkpoint, collected in the driver: what `controlplane.checkpoints.inventory.model` reads.

Folder by folder, the logs first and so that no batch ends between them; then the small files a judge reads.
Bounded in entries, bytes and time, and what was seen can be asked for at any moment. Read only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple

from listeners.checkpoints import inventory_policy
from listeners.checkpoints.hadoop import DirectoryReader, ListedFile
from listeners.checkpoints.inventory_policy import InventoryBudget
from listeners.protocol.errors import FilesError

#: As `controlplane.checkpoints.inventory.model` has it.
FORMAT = "spark-checkpoint-inventory"
VERSION = 1
MAX_DEPTH = 16
#: The logs are listed anew where a batch ended meanwhile; a query that is faster than this is taken as it is.
MAX_TRIES = 3
MAX_ERRORS = 50
SINK_LOG = "_spark_metadata"
_SINK_PATH = re.compile(r"FileSink\[(.+)\]", re.DOTALL)


class Bounds(NamedTuple):
    """Of one inventory: seconds in all, entries, bytes of their names as JSON, and the budget of contents."""

    seconds: float = 10.0
    entries: int = 20_000
    names: int = 2_000_000
    contents: InventoryBudget = InventoryBudget()


class InventoryFile(NamedTuple):
    """Bytes of a file (0 of a folder) and seconds since 1970."""

    size: int
    modified: float | None
    folder: bool = False


class DriverInventory:
    """What has been seen of one place so far; filled by one thread, told at any time by another."""

    def __init__(self, files: DirectoryReader, bounds: Bounds, deadline: float, clock: Callable[[], float]):
        """`deadline` by `clock`, in seconds."""
        self.files, self.bounds = files, bounds
        self._deadline, self._clock = deadline, clock
        self.entries: dict[str, InventoryFile] = {}
        self.contents: dict[str, bytes] = {}
        self.errors: list[str] = []
        self.exists = True
        self.truncated = False
        self.done = False
        self.root_modified: float | None = None
        #: Files seen and their bytes, those too that are not named.
        self.count = self.bytes = 0
        self._names = 0
        self._reduced = False
        self._listed: set[str] = set()
        self._read: set[str] = set()

    # -- what is there ---------------------------------------------------------------------------

    def open(self) -> bool:
        """Whether it is a folder that can be looked into."""
        try:
            status = self.files.status()
        except FilesError as error:
            self.exists = not error.gone
            if self.exists:
                self._note_error(".", error)
            return False
        self.root_modified = status.modified
        if not status.folder:
            self.errors.append("it is a file, not a folder")
        return status.folder

    def list_folder(self, folder: str, limit: int | None = None) -> list[str]:
        """Take in what is in a folder; the folders in it. A folder that has gone is none."""
        limit = self.bounds.entries if limit is None else limit
        try:
            found, whole = self.files.list_folder(folder, limit)
        except FilesError as error:
            self._forget_folder(folder) if error.gone else self._note_error(folder or ".", error)
            return []
        self._listed.add(folder)
        self.truncated = self.truncated or not whole
        self._take(folder, found)
        return [_join(folder, each.name) for each in sorted(found, key=_metadata_first) if each.folder]

    def _take(self, folder: str, found: list[ListedFile]) -> None:
        skipped = (
            inventory_policy.dispensable(folder, [each.name for each in found]) if self._reduced else set()
        )
        for each in found:
            if not each.folder:
                self.count, self.bytes = self.count + 1, self.bytes + each.size
            if each.name not in skipped:
                path = _join(folder, each.name)
                self.entries[path] = InventoryFile(
                    0 if each.folder else each.size, each.modified, each.folder
                )
                self._names += len(path.encode("utf-8", "replace")) + 40
        if self._is_over_limit() and not self._reduced:
            self._reduced = True
            self._drop_dispensable()

    def _is_over_limit(self) -> bool:
        return len(self.entries) > self.bounds.entries or self._names > self.bounds.names

    def _drop_dispensable(self) -> None:
        """Leave out what a restart does not open; from here on of every folder at once."""
        folders: dict[str, list[str]] = {}
        for path in self.entries:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            for name in inventory_policy.dispensable(folder, names):
                self._drop(_join(folder, name))

    def _drop(self, path: str) -> None:
        if self.entries.pop(path, None) is not None:
            self._names -= len(path.encode("utf-8", "replace")) + 40

    def _forget_folder(self, folder: str) -> None:
        """It was there a moment ago, or never: nothing is said of what it held."""
        for path in [p for p in list(self.entries) if p == folder or p.startswith(folder + "/")]:
            self._drop(path)

    def _note_error(self, path: str, error: FilesError) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(f"{path}: {error}")

    def relist(self, folder: str) -> list[str]:
        """As `list_folder`, in the place of what was seen of it before."""
        for path in self._children(folder):
            entry = self.entries[path]
            if not entry.folder:
                self.count, self.bytes = self.count - 1, self.bytes - entry.size
            self._drop(path)
        return self.list_folder(folder)

    def _children(self, folder: str) -> list[str]:
        return [path for path in list(self.entries) if path.rpartition("/")[0] == folder]

    def walk(self, pending: list[str]) -> None:
        """All below these folders that was not listed yet, breadth first, while the bounds allow."""
        while pending:
            following: list[str] = []
            for folder in pending:
                if folder in self._listed:
                    following += [path for path in self._children(folder) if self.entries[path].folder]
                elif folder.count("/") < MAX_DEPTH:
                    if self._is_over_limit() or self.is_late():
                        self.truncated = True
                        return
                    following += self.list_folder(folder)
            pending = following

    def is_late(self) -> bool:
        return self._clock() >= self._deadline

    def newest(self, folder: str) -> int:
        """The newest batch of a log, as far as it was listed; -1 without one."""
        return _newest(path.rpartition("/")[2] for path in self._children(folder))

    def newest_now(self, folder: str) -> int:
        """The newest batch of a log at this moment; nothing is taken in."""
        try:
            found, _ = self.files.list_folder(folder, self.bounds.entries)
        except FilesError:
            return -1
        return _newest(each.name for each in found)

    # -- what is in it ---------------------------------------------------------------------------

    def read(self, budget: InventoryBudget, rows: bool = True) -> None:
        """The contents of the files that a judge reads, weightiest first. `rows`: those too that hold state."""
        sizes = {
            path: entry.size
            for path, entry in self.entries.items()
            if not entry.folder and (rows or not holds_state_rows(path))
        }
        wanted = [path for path in inventory_policy.select_contents(sizes, budget) if path not in self._read]
        for at, path in enumerate(wanted):
            if self.is_late():
                self._report_unread(wanted[at:])
                return
            self._read.add(path)
            try:
                self.contents[path] = self.files.read(path)
            except FilesError as error:
                self._drop(path) if error.gone else self._note_error(path, error)

    def _report_unread(self, paths: list[str]) -> None:
        """State that was not read is as if it were large; a log that was not read must be told."""
        logs = [path for path in paths if not path.startswith("state/")]
        if logs:
            self.errors.append(f"{len(logs)} files of its logs were not read in time, first: {logs[0]}")

    # -- the document ----------------------------------------------------------------------------

    def document(self, now: float, spark_version: str | None) -> dict[str, Any]:
        """JSON of format FORMAT; `now` in seconds since 1970."""
        entries = sorted(self.entries.copy().items())
        return {
            "format": FORMAT,
            "version": VERSION,
            "root": display_root(self.files.root),
            "collected_at": now,
            "collector": f"driver {scheme(self.files.root)}",
            "exists": self.exists,
            "complete": self.done and not self.truncated,
            "guessed": False,
            "root_modified": self.root_modified,
            "spark_version": spark_version,
            "errors": list(self.errors),
            "relocations": [],
            "files": [[path, e.size, e.modified] for path, e in entries if not e.folder],
            "folders": [[path, e.modified] for path, e in entries if e.folder],
            "contents": {
                path: base64.b64encode(data).decode("ascii")
                for path, data in sorted(self.contents.copy().items())
            },
        }


def _metadata_first(each: ListedFile) -> tuple[bool, str]:
    """What describes a store before the store: `_metadata` before `0`."""
    return not each.name.startswith("_"), each.name


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def display_root(root: str) -> str:
    """`file:/a` → `/a`, as other collectors name it; other URLs stay."""
    return re.sub(r"^file:/+", "/", root).rstrip("/") or "/"


def scheme(root: str) -> str:
    return root.partition(":")[0] if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", root) else "file"


# -- a checkpoint and its output -------------------------------------------------------------------


def collect(checkpoint: DriverInventory, output: DriverInventory | None = None, rows: bool = True) -> None:
    """Fill both. While the query runs all logs are listed as of one batch; of the output the sink's log only.

    An output may hold millions of files, more than a driver has memory for; so it is never `complete`.
    """
    sink = output if output is not None and output.open() else None
    if checkpoint.open():
        folders = _list_top(checkpoint, sink)
        checkpoint.read(checkpoint.bounds.contents)  # before the state, whose listing may take all the time
        checkpoint.walk(sorted(folders, key=lambda folder: (folder not in ("sources", "state"), folder)))
        checkpoint.read(checkpoint.bounds.contents, rows)
    checkpoint.done = True
    if output is not None:
        if sink is not None:
            sink.read(sink.bounds.contents)
            sink.truncated = True
        output.done = True


def _list_top(checkpoint: DriverInventory, sink: DriverInventory | None) -> list[str]:
    """What lies at the top, and the logs; the folders at the top."""
    folders = checkpoint.list_folder("")
    for _ in range(MAX_TRIES):
        _list_logs(checkpoint, sink)
        if checkpoint.is_late() or checkpoint.newest_now("commits") == checkpoint.newest("commits"):
            break
    return folders


def _list_logs(checkpoint: DriverInventory, sink: DriverInventory | None) -> None:
    """Each before what is written before it, so that none is ahead of what it follows."""
    checkpoint.relist("commits")
    if sink is not None:
        sink.relist(SINK_LOG)
    checkpoint.relist("offsets")
    for source in checkpoint.relist("sources"):
        checkpoint.relist(source)


def holds_state_rows(path: str) -> bool:
    """Whether a file's content is the user's data: keys and values of state."""
    return path.startswith("state/") and "_metadata/" not in path and "_stateSchema/" not in path


def _newest(names: Iterable[str]) -> int:
    return max((int(name) for name in names if name.isdigit() and len(name) < 19), default=-1)


def output_location(sink: str | None) -> str | None:
    """`FileSink[file:/out]` → `file:/out`; None of another sink."""
    match = _SINK_PATH.fullmatch(sink or "")
    return match.group(1) if match else None
