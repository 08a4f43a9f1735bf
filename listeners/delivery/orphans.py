"""Spools that dead processes left behind: find them, open them for delivery and delete the empty ones.

A spool is an orphan when no process holds its lock. Any agent of the same server adopts it, whatever its
application: the application of a driver that ended may never run on this host again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from listeners.delivery.spool import Spool
from listeners.delivery.transport import are_same_servers
from listeners.protocol.errors import SpoolError

#: How long empty spools and damaged records are kept.
RETENTION_SECONDS = 7 * 86400.0
MAX_DAMAGED_FILES = 20
DAMAGED = "????????-????-????-????-????????????.damaged"


class Orphan(NamedTuple):
    """A spool that a dead process left, locked; `owner` is what its `owner.json` names (`app`, `server`)."""

    spool: Spool
    owner: Mapping[str, object]


def orphans(root: Path, server: str | None, app: object = None) -> Iterator[Orphan]:
    """Orphaned spools under `root` for this server, or for any if None, oldest first. Close each.

    Those of the application `app` come before the others.
    """
    for directory in sorted(_directories(root), key=lambda path: (_owner_of(path) or {}).get("app") != app):
        owner = _owner_of(directory)
        if owner is not None and (server is None or are_same_servers(owner.get("server"), server)):
            spool = _open_spool(directory)
            if spool is not None:
                yield Orphan(spool, owner)


def in_use(root: Path) -> int:
    """How many spools under `root` belong to a process that runs, or cannot be opened."""
    opened = [_open_spool(directory) for directory in _directories(root)]
    for spool in filter(None, opened):
        spool.close()
    return opened.count(None)


def sweep(root: Path, now: float) -> None:
    """Delete empty spools and damaged records older than a week, whoever owns them. Never raises."""
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
    """Directories with a spool's `owner.json`; the root may contain other directories."""
    return sorted((path for path in _glob(root, "*") if _owner_of(path)), key=_changed_at)


def _glob(root: Path, pattern: str) -> list[Path]:
    try:
        return list(root.glob(pattern))
    except OSError:
        return []


def _changed_at(path: Path) -> float:
    """When the path or something in it was last written; infinite if unknown."""
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
    """None if its process is alive, or if that cannot be determined (a file system without locks)."""
    try:
        return Spool(directory)
    except SpoolError:
        return None
