"""The data directory: made where there is none, and held by one server at a time.

Called by `controlplane.app`. The lock ends with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from controlplane.errors import SettingsError


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Ours while entered; SettingsError where it cannot be made or another server has it."""
    handle = _lock(_made(path) / "server.lock")
    try:
        yield
    finally:
        os.close(handle)


def _made(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the data directory {path} cannot be made: {error.strerror}") from None
    return path


def _lock(file: Path) -> int:
    """One server per data directory: two would each know half of what happens."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"{file} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise SettingsError(f"another server uses the data directory {file.parent}") from None
    return handle
