"""Space set aside for the moment when the disk is full: deleting rows needs some, too.

A file beside the embedded store. It is given up before a deletion on a full disk, or when the store
cannot be opened on one, and made again once there is room.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

RESERVE_BYTES = 4 * 1024 * 1024


def reserve_of(store: Path) -> Path:
    return store.with_name(store.name + ".reserve")


def give_up(store: Path) -> bool:
    """Free the reserved space; False when there was none."""
    try:
        reserve_of(store).unlink()
    except OSError:
        return False
    log.warning("the disk of the store is full: its reserve was given up")
    return True


def ensure(store: Path, size: int = RESERVE_BYTES) -> bool:
    """Set the space aside, if there is plenty; True when it is there."""
    reserve = reserve_of(store)
    if reserve.exists():
        return True
    if shutil.disk_usage(store.parent).free < 4 * size:
        return False
    draft = reserve.with_name(reserve.name + ".new")
    try:
        with open(draft, "wb") as file:
            _allocate(file.fileno(), size)
        os.replace(draft, reserve)
    except OSError:
        draft.unlink(missing_ok=True)
        return False
    return True


def _allocate(descriptor: int, size: int) -> None:
    """Blocks that exist: a file with a hole in it reserves nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, os.urandom(size))
