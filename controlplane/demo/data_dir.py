"""The demonstration's folder inside the data directory: made anew at each start, and only if it is ours.

Called by `controlplane.demo.fleet`. A marker file says who made the folder, a lock that it is in use.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import IO

from controlplane.console.errors import DataDirInUse
from controlplane.demo.feeder import FEEDS
from controlplane.runtime import data_dir as data_dirs

MARKER = ".made-by-controlplane-demo"


def lock(data_dir: Path) -> IO[str]:
    """Hold the data directory for one demonstration at a time, for as long as the returned file is open."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # tokens will live here
    with data_dirs.held(data_dir):
        pass  # SettingsError: a server runs on it, which the demo's own would find out too late
    held = (data_dir / "demo.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise DataDirInUse(f"another demo is running in {data_dir}; stop it or give --data-dir") from None
    return held


def fresh(data_dir: Path) -> Path:
    """Empty `data_dir/demo` and return it; FolderInUse where something stands there that no demo made."""
    folder = data_dir / "demo"
    if folder.exists():
        if any(folder.iterdir()) and not (folder / MARKER).exists():
            raise DataDirInUse(
                f"{folder} was not made by the demo and is left alone; give another --data-dir"
            )
        shutil.rmtree(folder)
    for name in (*(f"input/{feed}" for feed in FEEDS), "checkpoints", "output"):
        (folder / name).mkdir(parents=True)
    (folder / MARKER).touch()
    return folder
