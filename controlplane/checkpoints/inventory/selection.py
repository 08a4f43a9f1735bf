"""Selection of the files whose contents an inventory carries: those the analyzer reads, within a budget. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from controlplane.checkpoints.inventory.model import FileEntry

#: Limits of one inventory: files, total bytes, bytes of one file.
MAX_FILES = 4000
MAX_TOTAL_BYTES = 6 << 20
MAX_FILE_BYTES = 256 << 10
#: A source's compaction lists every file that it ever read.
MAX_COMPACTION_BYTES = 1 << 20
#: Only small SST files are read; large ones would use up the budget.
MAX_SST_BYTES = 64 << 10
NEWEST_BATCHES = 3
NEWEST_SNAPSHOTS = 3
NEWEST_CHANGES = 60
_STATE_FILE = re.compile(r"(\d{1,18})(?:_[0-9a-zA-Z-]+)?\.(delta|snapshot|zip|changelog)(\.crc)?")


def select_files(entries: Mapping[str, FileEntry]) -> list[str]:
    """The paths to read, most important first, within the budget."""
    picked: dict[str, None] = {}
    spent = 0
    for path, limit in _wanted(entries):
        entry = entries.get(path)
        if entry is None or entry.folder or path in picked or not 0 < entry.size <= limit:
            continue
        if len(picked) >= MAX_FILES or spent + entry.size > MAX_TOTAL_BYTES:
            break
        picked[path] = None
        spent += entry.size
    return list(picked)


def _wanted(entries: Mapping[str, FileEntry]) -> Iterator[tuple[str, int]]:
    """Path and its size limit in bytes, most important first."""
    folders = _by_folder(entries)
    yield from ((path, MAX_FILE_BYTES) for path in ("metadata", ".metadata.crc"))
    for folder in ("offsets", "commits"):
        yield from ((path, MAX_FILE_BYTES) for path in _newest(folder, folders.get(folder, ())))
    yield from (
        (path, MAX_FILE_BYTES)
        for path in sorted(entries)
        if "_metadata/" in path and path.startswith("state/")
    )
    for folder in sorted(folders):
        if folder.startswith("sources/") or folder == "_spark_metadata":
            yield from ((path, MAX_COMPACTION_BYTES) for path in _of_file_log(folder, folders[folder]))
    yield from _of_state(entries, folders)


def _by_folder(entries: Mapping[str, FileEntry]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for path, entry in entries.items():
        if not entry.folder:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
    return folders


def _newest(folder: str, names: Iterable[str]) -> Iterator[str]:
    """The newest batches of a log, with their hidden checksum files."""
    numbers = sorted((int(name) for name in names if _is_number(name)), reverse=True)
    for number in numbers[:NEWEST_BATCHES]:
        yield f"{folder}/{number}"
        yield f"{folder}/.{number}.crc"


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 19


def _of_file_log(folder: str, names: Iterable[str]) -> Iterator[str]:
    """Everything since the last compaction but one, newest first: what Spark opens, and what that covers."""
    numbered = sorted(
        ((int(n.removesuffix(".compact")), n) for n in names if _is_number(n.removesuffix(".compact"))),
        reverse=True,
    )
    compactions = 0
    for _, name in numbered[:1000]:
        yield f"{folder}/{name}"
        compactions += name.endswith(".compact")
        if compactions == 2:
            return


def _of_state(
    entries: Mapping[str, FileEntry], folders: Mapping[str, list[str]]
) -> Iterator[tuple[str, int]]:
    """State files by rank: the newest files of every store come before the older ones of any store."""
    ranked: list[tuple[int, str]] = []
    for folder, names in folders.items():
        if folder.startswith("state/") and not folder.endswith(("_metadata", "_metadata/v2")):
            ranked += _ranked(folder, names)
    yield from (
        (path, MAX_SST_BYTES if path.endswith(".sst") else MAX_FILE_BYTES) for _, path in sorted(ranked)
    )


def _ranked(folder: str, names: list[str]) -> Iterator[tuple[int, str]]:
    matches = [match for match in map(_STATE_FILE.fullmatch, names) if match]
    changes = sorted((m for m in matches if m[2] in ("delta", "changelog")), key=lambda m: -int(m[1]))
    snapshots = sorted((m for m in matches if m[2] in ("snapshot", "zip")), key=lambda m: -int(m[1]))
    yield from ((rank // 2, f"{folder}/{m[0]}") for rank, m in enumerate(snapshots[: 2 * NEWEST_SNAPSHOTS]))
    yield from ((rank // 2, f"{folder}/{m[0]}") for rank, m in enumerate(changes[: 2 * NEWEST_CHANGES]))
    tables = sorted((name for name in names if name.endswith(".sst")), reverse=True)
    yield from ((3 + rank, f"{folder}/{name}") for rank, name in enumerate(tables[:20]))
