"""The demo's directory inside the data directory: recreated at each start if an earlier demo made it.

Called by `controlplane.demo.fleet`. A marker file identifies directories that a demo made; a lock marks one in use.
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
    """Lock the data directory while the returned file is open; DataDirInUse where another demo holds it."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold tokens
    with data_dirs.locked(data_dir):
        pass  # SettingsError where a server uses it: the demo's own server would fail later
    held = (data_dir / "demo.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise DataDirInUse(f"another demo is running in {data_dir}; stop it or give --data-dir") from None
    return held


def fresh(data_dir: Path) -> Path:
    """Empty `data_dir/demo` and return it; DataDirInUse where it has content that no demo made."""
    folder = data_dir / "demo"
    if folder.exists():
        if any(folder.iterdir()) and not (folder / MARKER).exists():
            raise DataDirInUse(f"{folder} was not made by the demo; give another --data-dir")
        shutil.rmtree(folder)
    for name in (*(f"input/{feed}" for feed in FEEDS), "checkpoints", "output"):
        (folder / name).mkdir(parents=True)
    (folder / MARKER).touch()
    return folder
