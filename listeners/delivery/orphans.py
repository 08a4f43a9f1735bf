"""Spools that dead processes left: found, opened for delivery, and swept up when nothing is in them.

A spool is an orphan when nobody holds its lock. Only a process of the same owner (application and server)
adopts it. What others left with events in it is never touched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from listeners.delivery.spool import Spool
from listeners.protocol.errors import SpoolError

#: Empty spools and damaged records are kept this long.
RETENTION_SECONDS = 7 * 86400.0
MAX_DAMAGED_FILES = 20
DAMAGED = "????????-????-????-????-????????????.damaged"


def orphans(root: Path, owner: Mapping[str, str]) -> Iterator[Spool]:
    """Spools under `root` that the same owner left behind, oldest first. Locked: close each."""
    for directory in _directories(root):
        owner_file = _owner_of(directory)
        if owner_file is not None and all(owner_file.get(key) == value for key, value in owner.items()):
            spool = _open_spool(directory)
            if spool is not None:
                yield spool


def sweep(root: Path, now: float) -> None:
    """Remove what is older than a week and holds no event, whosever it is. Never raises."""
    for directory in _directories(root):
        if now - _changed_at(directory) > RETENTION_SECONDS:
            spool = _open_spool(directory)
            if spool is not None:
                spool.close(remove=spool.events == 0)
    damaged = sorted(_glob(root, DAMAGED), key=_changed_at, reverse=True)
    for index, path in enumerate(damaged):
        if index >= MAX_DAMAGED_FILES or now - _changed_at(path) > RETENTION_SECONDS:
            _unlink(path)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


def _directories(root: Path) -> list[Path]:
    """Only what a spool's owner has signed: other people's directories may lie beside."""
    return sorted((path for path in _glob(root, "*") if _owner_of(path)), key=_changed_at)


def _glob(root: Path, pattern: str) -> list[Path]:
    try:
        return list(root.glob(pattern))
    except OSError:
        return []


def _changed_at(path: Path) -> float:
    """When it or something in it was last written to; infinite where nobody can tell."""
    try:
        return max(entry.stat().st_mtime for entry in (path, *path.glob("*")))
    except OSError:
        return math.inf


def _owner_of(directory: Path) -> Mapping[str, object] | None:
    try:
        owner_file = json.loads((directory / "owner.json").read_text())
    except (OSError, ValueError):
        return None
    return owner_file if isinstance(owner_file, dict) and owner_file.get("agent") == directory.name else None


def _open_spool(directory: Path) -> Spool | None:
    """None where its process lives, or where nobody can tell (a file system without locks)."""
    try:
        return Spool(directory)
    except SpoolError:
        return None
