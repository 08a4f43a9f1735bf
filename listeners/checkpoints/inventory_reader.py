"""Collect a checkpoint inventory in the driver, in the format of `controlplane.checkpoints.inventory.model`.

Reads folder by folder: first the logs, as of one batch, then the small files that the analyzer needs.
Entries, bytes and time are limited, and the inventory so far can be read at any moment. Read only.
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

#: The same as in `controlplane.checkpoints.inventory.model`.
FORMAT = "spark-checkpoint-inventory"
VERSION = 1
MAX_DEPTH = 16
#: Attempts to list the logs as of one batch. A faster query is listed as it is.
MAX_TRIES = 3
MAX_ERRORS = 50
SINK_LOG = "_spark_metadata"
LOGS = {"committed": "commits", "planned": "offsets"}
_SINK_PATH = re.compile(r"FileSink\[(.+)\]", re.DOTALL)


class Bounds(NamedTuple):
    """Limits of an inventory: seconds in total, entries, bytes of their names as JSON, and contents."""

    seconds: float = 10.0
    entries: int = 20_000
    names: int = 2_000_000
    contents: InventoryBudget = InventoryBudget()


class InventoryFile(NamedTuple):
    """Bytes of a file (0 for a folder) and modification time in Unix seconds."""

    size: int
    modified: float | None
    folder: bool = False


class DriverInventory:
    """The inventory of one location so far. One thread fills it, another may read it at any time."""

    def __init__(self, files: DirectoryReader, bounds: Bounds, deadline: float, clock: Callable[[], float]):
        """`deadline` is in seconds by `clock`."""
        self.files, self.bounds = files, bounds
        self._deadline, self._clock = deadline, clock
        self.entries: dict[str, InventoryFile] = {}
        self.contents: dict[str, bytes] = {}
        self.errors: list[str] = []
        self.exists = True
        self.truncated = False
        self.done = False
        self.root_modified: float | None = None
        #: Files found and their bytes, including those that are not listed.
        self.count = self.bytes = 0
        self._names = 0
        self._reduced = False
        self._listed: set[str] = set()
        self._read: set[str] = set()

    # -- listing ---------------------------------------------------------------------------------

    def open(self) -> bool:
        """Whether the location is a folder that can be listed."""
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
        """Add a folder's entries and return the folders in it. A missing folder has none.

        A folder that cannot be listed makes the inventory incomplete: nothing may then be called missing.
        """
        limit = self.bounds.entries if limit is None else limit
        try:
            found, whole = self.files.list_folder(folder, limit)
        except FilesError as error:
            if error.gone:
                self._forget_folder(folder)
            else:
                self.truncated = True
                self._note_error(folder or ".", error)
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
                self._names += _name_bytes(path)
        if self._is_over_limit() and not self._reduced:
            self._reduced = True
            self._drop_dispensable()

    def _is_over_limit(self) -> bool:
        return len(self.entries) > self.bounds.entries or self._names > self.bounds.names

    def _drop_dispensable(self) -> None:
        """Drop the files that a restart does not open, here and in every folder listed from now on."""
        folders: dict[str, list[str]] = {}
        for path in self.entries:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            for name in inventory_policy.dispensable(folder, names):
                self._drop(_join(folder, name))

    def _drop(self, path: str) -> None:
        if self.entries.pop(path, None) is not None:
            self._names -= _name_bytes(path)

    def _forget_folder(self, folder: str) -> None:
        """Drop everything below a folder that has disappeared or never existed."""
        for path in [p for p in list(self.entries) if p == folder or p.startswith(folder + "/")]:
            self._drop(path)

    def _note_error(self, path: str, error: FilesError) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(f"{path}: {error}")

    def forget(self, *folders: str) -> None:
        """Drop everything below these top-level folders at once, so that a log is not kept beside an older one."""
        kept, dropped = {}, []
        for path, entry in self.entries.items():
            if "/" in path and path.partition("/")[0] in folders:
                dropped.append((path, entry))
            else:
                kept[path] = entry
        self.entries = kept
        self.count -= sum(not entry.folder for _, entry in dropped)
        self.bytes -= sum(entry.size for _, entry in dropped)
        self._names -= sum(_name_bytes(path) for path, _ in dropped)

    def _children(self, folder: str) -> list[str]:
        return [path for path in list(self.entries) if path.rpartition("/")[0] == folder]

    def walk(self, pending: list[str]) -> None:
        """List all folders below these that are not listed yet, breadth first, within the limits."""
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
        """Whether the deadline has passed."""
        return self._clock() >= self._deadline

    def newest(self, folder: str) -> int:
        """The newest batch of a log among the listed entries; -1 if there is none."""
        return _newest(path.rpartition("/")[2] for path in self._children(folder))

    def newest_now(self, folder: str) -> int:
        """The newest batch of a log at this moment; adds no entries. -1 if there is none."""
        try:
            found, _ = self.files.list_folder(folder, self.bounds.entries)
        except FilesError:
            return -1
        return _newest(each.name for each in found)

    # -- reading ---------------------------------------------------------------------------------

    def read(self, budget: InventoryBudget, rows: bool = True) -> None:
        """Read the files that the analyzer needs, most important first.

        `rows` includes files that hold state.
        """
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
        """Report logs that were not read in time.

        Unread state files need no report: large ones are never read.
        """
        logs = [path for path in paths if not path.startswith("state/")]
        if logs:
            self.errors.append(f"{len(logs)} log files were not read in time, first: {logs[0]}")

    # -- output ----------------------------------------------------------------------------------

    def document(self, now: float, spark_version: str | None) -> dict[str, Any]:
        """The inventory as JSON of format FORMAT; `now` in Unix seconds."""
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


def _name_bytes(path: str) -> int:
    """About the bytes of an entry as JSON."""
    return len(path.encode("utf-8", "replace")) + 40


def _metadata_first(each: ListedFile) -> tuple[bool, str]:
    """Sort key: the folder that describes a store before the store, `_metadata` before `0`."""
    return not each.name.startswith("_"), each.name


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def display_root(root: str) -> str:
    """`file:/a` → `/a`, as other collectors name it; other URLs are unchanged."""
    return re.sub(r"^file:/+", "/", root).rstrip("/") or "/"


def scheme(root: str) -> str:
    """The scheme of a URL; `file` for a plain path."""
    return root.partition(":")[0] if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", root) else "file"


# -- checkpoint and sink output --------------------------------------------------------------------


def collect(checkpoint: DriverInventory, output: DriverInventory | None = None, rows: bool = True) -> None:
    """Fill both inventories. All logs are listed as of one batch, even while the query runs.

    Of the output only the sink's log is read: an output may hold millions of files, more than fit in the
    driver's memory. So the output's inventory is never `complete`.
    """
    sink = output if output is not None and output.open() else None
    if checkpoint.open():
        folders = _list_top(checkpoint, sink)
        checkpoint.read(checkpoint.bounds.contents)  # before the state, which may take all the time to list
        checkpoint.walk(sorted(folders, key=lambda folder: (folder not in ("sources", "state"), folder)))
        checkpoint.read(checkpoint.bounds.contents, rows)
    checkpoint.done = True
    if output is not None:
        if sink is not None:
            sink.read(sink.bounds.contents)
            sink.truncated = True
        output.done = True


def _list_top(checkpoint: DriverInventory, sink: DriverInventory | None) -> list[str]:
    """List the top level and the logs; return the top-level folders."""
    folders = checkpoint.list_folder("")
    for _ in range(MAX_TRIES):
        _list_logs(checkpoint, sink)
        if checkpoint.is_late() or checkpoint.newest_now("commits") == checkpoint.newest("commits"):
            break
    return folders


def _list_logs(checkpoint: DriverInventory, sink: DriverInventory | None) -> None:
    """List each log before the one written before it, so that no log is ahead of the one it follows.

    An earlier listing is dropped first: a file system may hang in between.
    """
    checkpoint.forget("commits", "offsets", "sources")
    checkpoint.list_folder("commits")
    if sink is not None:
        sink.forget(SINK_LOG)
        sink.list_folder(SINK_LOG)
    checkpoint.list_folder("offsets")
    for source in checkpoint.list_folder("sources"):
        checkpoint.list_folder(source)


def newest_batches(files: DirectoryReader, limit: int) -> dict[str, int | None]:
    """`{"committed", "planned"}`: the newest batches in commits/ and offsets/; None for an empty or missing log.

    Two listings, commits/ first, so that no commit seems to lack its offsets. FilesError if a log cannot be read.
    """
    return {name: _newest_in(files, folder, limit) for name, folder in LOGS.items()}


def _newest_in(files: DirectoryReader, folder: str, limit: int) -> int | None:
    try:
        found, whole = files.list_folder(folder, limit)
    except FilesError as error:
        if error.gone:
            return None
        raise
    if not whole:
        raise FilesError(f"{folder} has more than {limit} entries")
    newest = _newest(each.name for each in found)
    return newest if newest >= 0 else None


def holds_state_rows(path: str) -> bool:
    """Whether a file holds the user's data: keys and values of state."""
    return path.startswith("state/") and "_metadata/" not in path and "_stateSchema/" not in path


def _newest(names: Iterable[str]) -> int:
    return max((int(name) for name in names if name.isdigit() and len(name) < 19), default=-1)


def output_location(sink: str | None) -> str | None:
    """`FileSink[file:/out]` → `file:/out`; None for any other sink."""
    match = _SINK_PATH.fullmatch(sink or "")
    return match.group(1) if match else None
