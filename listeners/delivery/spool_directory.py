"""Where the spools of this user's agents are, and how large one may become: settings from the environment.

Called by `listeners.attachment` and `listeners.send_spools`.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from pathlib import Path

from listeners.delivery.spool import MAX_BYTES

log = logging.getLogger("controlplane.agent")

MIN_SPOOL_BYTES = 1024 * 1024


def spool_root(setting: str | None) -> Path:
    """The directory for spools: `setting`, else a private directory of this user in the temporary directory.

    Where no directory can be created, return a path that cannot be written to; events are then kept in
    memory.
    """
    if setting:
        return Path(setting)
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        root = Path(tempfile.gettempdir()) / f"controlplane-spool-{user}"
        return root if _is_private(root) else Path(tempfile.mkdtemp(prefix="controlplane-spool-"))
    except OSError as error:
        log.warning(
            "no directory for the spool: %s; events are kept in memory; set CONTROLPLANE_SPOOL_DIR", error
        )
        return Path(os.devnull) / "controlplane-spool"


def spool_limit(setting: str | None) -> int:
    """`CONTROLPLANE_SPOOL_BYTES`: the maximum size of the spool in bytes; default 256 MiB, minimum 1 MiB."""
    if not setting:
        return MAX_BYTES
    if setting.isascii() and setting.isdigit() and int(setting) >= MIN_SPOOL_BYTES:
        return int(setting)
    log.warning(
        "CONTROLPLANE_SPOOL_BYTES=%r is not a whole number of at least %d; the limit stays at %d bytes",
        setting[:40],
        MIN_SPOOL_BYTES,
        MAX_BYTES,
    )
    return MAX_BYTES


def _is_private(root: Path) -> bool:
    """Whether only this user can write there.

    The name is predictable: another user may have created it first.
    """
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()
    except OSError:
        return False
    is_owned_by_us = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and is_owned_by_us and (os.name == "nt" or not status.st_mode & 0o077)
