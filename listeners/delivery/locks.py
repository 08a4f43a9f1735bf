"""Locks on spool directories that are released when their process ends.

Both the directory and a file in it are locked: programs that clean temporary directories leave a locked
directory alone, and network file systems lock files only.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from listeners.protocol.errors import SpoolError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock
    fcntl = None  # type: ignore[assignment]

CAN_LOCK: bool = fcntl is not None
#: Errors for a lock that another process holds. Any other error means that the file system has no locks.
HELD_ERRNOS = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class Lock:
    """A lock on a directory. `certain` is false if the file system has no locks."""

    def __init__(self, descriptors: list[int], certain: bool):
        self._descriptors, self.certain = descriptors, certain

    def release(self) -> None:
        """Release the lock."""
        for descriptor in self._descriptors:
            try:
                os.close(descriptor)
            except OSError:
                pass
        self._descriptors = []


def acquire(directory: Path) -> Lock:
    """Lock the directory. SpoolError if another process holds the lock, OSError if the disk refuses."""
    lock = Lock([], False)
    if not CAN_LOCK:
        return lock
    try:
        file = os.open(str(directory / "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        lock.certain = _lock_descriptor(lock, file, directory)
        folder = os.open(str(directory), os.O_RDONLY)
        _lock_descriptor(lock, folder, directory)
    except BaseException:
        lock.release()
        raise
    return lock


def _lock_descriptor(lock: Lock, descriptor: int, directory: Path) -> bool:
    lock._descriptors.append(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD_ERRNOS:
            raise SpoolError(f"spool {directory} is in use by another process") from None
        return False
    return True
