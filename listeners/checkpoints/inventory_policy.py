"""Select the files of a checkpoint that an inventory lists and reads, newest and most important first. Pure.

The rule equals `controlplane.checkpoints.inventory.selection`, which the agent cannot import; a contract test
compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class InventoryBudget(NamedTuple):
    """Limits: files, bytes in total, bytes of a file, of a source log's compaction, of an SST file."""

    files: int = 500
    bytes: int = 512 << 10
    each: int = 256 << 10
    compact: int = 256 << 10
    sst: int = 64 << 10


NEWEST_BATCHES = 3
NEWEST_SNAPSHOTS = 3
NEWEST_CHANGES = 60
#: Snapshots of a large store that are listed, with all files after the oldest of them.
KEPT_SNAPSHOTS = 3
_STATE_FILE = re.compile(r"(\d{1,18})(?:_[0-9a-zA-Z-]+)?\.(delta|snapshot|zip|changelog)(\.crc)?")
_NUMBER = re.compile(r"[0-9]{1,18}")


def select_contents(sizes: Mapping[str, int], budget: InventoryBudget) -> list[str]:
    """Paths to read, most important first. `sizes` maps each path to the file's bytes."""
    selected: dict[str, None] = {}
    used_bytes = 0
    for path, limit in _wanted(sizes, budget):
        size = sizes.get(path, 0)
        if path in selected or not 0 < size <= limit or used_bytes + size > budget.bytes:
            continue
        if len(selected) >= budget.files:
            break
        selected[path] = None
        used_bytes += size
    return list(selected)


def _wanted(sizes: Mapping[str, int], budget: InventoryBudget) -> Iterator[tuple[str, int]]:
    """(path, maximum size in bytes), most important first."""
    folders = _by_folder(sizes)
    yield from ((path, budget.each) for path in ("metadata", ".metadata.crc"))
    for folder in ("offsets", "commits"):
        yield from ((path, budget.each) for path in _newest(folder, folders.get(folder, ())))
    metadata_files = (path for path in sorted(sizes) if "_metadata/" in path and path.startswith("state/"))
    yield from ((path, budget.each) for path in metadata_files)
    for folder in sorted(folders):
        if folder.startswith("sources/") or folder == "_spark_metadata":
            yield from ((path, budget.compact) for path in _of_file_log(folder, folders[folder]))
    for _, path in sorted(_of_state(folders)):
        yield path, budget.sst if path.endswith(".sst") else budget.each


def _by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    return folders


def _newest(folder: str, names: Iterable[str]) -> Iterator[str]:
    """The newest batches of a log with their hidden checksum files."""
    for number in sorted((int(name) for name in names if _NUMBER.fullmatch(name)), reverse=True)[
        :NEWEST_BATCHES
    ]:
        yield f"{folder}/{number}"
        yield f"{folder}/.{number}.crc"


def _of_file_log(folder: str, names: Iterable[str]) -> Iterator[str]:
    """All files from the last but one compaction on, newest first."""
    batches = ((name[: -len(".compact")] if name.endswith(".compact") else name, name) for name in names)
    numbered = sorted(((int(b), name) for b, name in batches if _NUMBER.fullmatch(b)), reverse=True)
    compactions = 0
    for _, name in numbered[:1000]:
        yield f"{folder}/{name}"
        compactions += name.endswith(".compact")
        if compactions == 2:
            return


def _of_state(folders: Mapping[str, list[str]]) -> Iterator[tuple[int, str]]:
    """(rank, path): the newest files of every store come before older files of any store."""
    for folder, names in folders.items():
        if folder.startswith("state/") and not folder.endswith(("_metadata", "_metadata/v2")):
            yield from ((rank, f"{folder}/{name}") for rank, name in _ranked(names))


def _ranked(names: list[str]) -> Iterator[tuple[int, str]]:
    matches = [match for match in map(_STATE_FILE.fullmatch, names) if match]
    changes = sorted((m for m in matches if m[2] in ("delta", "changelog")), key=lambda m: -int(m[1]))
    snapshots = sorted((m for m in matches if m[2] in ("snapshot", "zip")), key=lambda m: -int(m[1]))
    yield from ((rank // 2, m[0]) for rank, m in enumerate(snapshots[: 2 * NEWEST_SNAPSHOTS]))
    yield from ((rank // 2, m[0]) for rank, m in enumerate(changes[: 2 * NEWEST_CHANGES]))
    tables = sorted((name for name in names if name.endswith(".sst")), reverse=True)
    yield from ((3 + rank, name) for rank, name in enumerate(tables[:20]))


def dispensable(folder: str, names: Iterable[str]) -> set[str]:
    """Files of a state store older than its last few snapshots; a restart does not open them.

    A store with fewer snapshots needs all its files. A hidden checksum goes with its file.
    """
    if not folder.startswith("state/"):
        return set()
    matches = {name: _STATE_FILE.fullmatch(_plain(name)) for name in names}
    versions = sorted(
        {int(m[1]) for m in matches.values() if m and m[2] in ("snapshot", "zip")}, reverse=True
    )
    if len(versions) < KEPT_SNAPSHOTS:
        return set()
    oldest = versions[KEPT_SNAPSHOTS - 1]
    return {name for name, match in matches.items() if match and int(match[1]) < oldest}


def _plain(name: str) -> str:
    """`.5.delta.crc`, as the local file system names it, → `5.delta`."""
    return name[1 : -len(".crc")] if name.startswith(".") and name.endswith(".crc") else name
