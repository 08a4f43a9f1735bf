"""The kinds of launchers, by name."""

from __future__ import annotations

from pathlib import Path

from controlplane.apps.launchers import command, kubernetes, process, standalone
from controlplane.apps.launchers.seam import Launcher
from controlplane.apps.model import StartedDriver

KINDS = {kind.name: kind for kind in (process.KIND, standalone.KIND, kubernetes.KIND, command.KIND)}


def launcher_of(driver: StartedDriver, directory: Path) -> Launcher:
    """The launcher that started, or will start, this driver. `directory`: an absolute path for files of its app."""
    return KINDS[driver.kind].build(driver.launcher, directory)
