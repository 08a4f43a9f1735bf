"""Disk reserve: a file beside the embedded store that is deleted when the disk is full.

Deleting rows and opening the store need some disk space. The file is released for them and created again once the
disk has space.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

RESERVE_BYTES = 4 * 1024 * 1024


def reserve_path(store: Path) -> Path:
    """The reserve file of a store file."""
    return store.with_name(store.name + ".reserve")


def release(store: Path) -> bool:
    """Delete the reserve file; False if there was none."""
    try:
        reserve_path(store).unlink()
    except OSError:
        return False
    log.warning("the disk of the store is full; the reserve of %d bytes was released", RESERVE_BYTES)
    return True


def ensure(store: Path, size: int = RESERVE_BYTES) -> bool:
    """Create the reserve file if four times its size is free; True if it exists."""
    reserve = reserve_path(store)
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
    """Allocate real blocks: a sparse file would reserve nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, os.urandom(size))
