"""Data directory: created if missing and locked by one server at a time.

Called by `controlplane.app`. The operating system releases the lock when the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from controlplane.errors import SettingsError


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the data directory; SettingsError if it cannot be created or another server uses it."""
    handle = _lock(_created(path) / "server.lock", f"the data directory {path}")
    try:
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked_store(file: Path | None) -> Iterator[None]:
    """Lock an SQLite store, which may lie outside the data directory; SettingsError if another server uses it."""
    if file is None:
        yield
        return
    _created(file.parent)
    handle = _lock(
        file.with_name(file.name + ".lock"), f"the store {file}; only PostgreSQL takes two servers"
    )
    try:
        yield
    finally:
        os.close(handle)


def _created(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the data directory {path} cannot be created: {error.strerror}") from None
    return path


def _lock(file: Path, what: str) -> int:
    """Take the lock file. Two servers on one store would each receive a part of the events."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"{file} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise SettingsError(f"another server uses {what}") from None
    return handle
