"""Launcher of local processes: drivers on the server's host that survive a restart of the server.

Each driver has a keeper (`process_keeper`) in a session and process group of its own, and a directory of files. A new
server finds the driver again by process id and start time. The driver counts as alive as long as one process of its
group is: a JVM may outlive its Python process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.apps.environment import with_agent
from controlplane.apps.launchers import process_keeper
from controlplane.apps.launchers.process_keeper import group_members, place, start_time
from controlplane.apps.launchers.seam import (
    MAX_LOG_BYTES,
    Launch,
    LauncherKind,
    LauncherSettings,
    Section,
    tail,
    wait_until,
)
from controlplane.apps.model import DriverPhase, DriverStatus, LauncherError, StartedDriver
from controlplane.runtime.java import java_environment

START_SECONDS = 10.0
KILL_SECONDS = 10.0
KEPT_LAUNCHES = 5  # directories of output
#: The server's own settings and secrets are not the driver's.
PRIVATE_PREFIX = "CONTROLPLANE_"


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts a command as a local process."""

    command: tuple[str, ...]
    cwd: str | None
    directory: Path

    def start(self, launch: Launch) -> Mapping[str, Any]:
        """Start the keeper and wait until it has recorded the driver."""
        folder = self._folder(launch.driver)
        keeper = _started_keeper(folder, self.command, self.cwd, launch.environment)
        known = folder / process_keeper.DRIVER
        wait_until(lambda: known.exists() or keeper.poll() is not None, START_SECONDS)
        ended = _read(folder / process_keeper.EXIT)
        if ended is not None and ended.get("reason"):
            raise LauncherError(str(ended["reason"]))
        found = _read(known)
        if found is None:
            raise LauncherError("the keeper of the driver recorded nothing", may_live=keeper.poll() is None)
        self._remove_old()
        return found

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        """SIGTERM to the driver, after the grace SIGKILL to its process group."""
        handle = self._handle(driver)
        if handle is None:
            return
        _check_place(handle)
        if _is_alive(int(handle["pid"]), handle["began"]):
            _signal(int(handle["pid"]), signal.SIGTERM)
        if wait_until(lambda: _is_over(handle), grace_seconds):
            return
        for pid in _living(handle):
            _signal(pid, signal.SIGKILL)
        if not wait_until(lambda: _is_over(handle), KILL_SECONDS):
            raise LauncherError(
                f"the driver's processes did not end within {KILL_SECONDS:.0f} s of SIGKILL", True
            )

    def state(self, driver: StartedDriver) -> DriverStatus:
        """Whether a process of the driver lives, and how it ended otherwise."""
        handle = self._handle(driver)
        if handle is None:
            return _unrecorded(self._folder(driver))
        there, here = handle["place"], place()
        if there["host"] != here["host"]:
            reason = (
                f"The driver was started on the host {there['host']}; this server runs on {here['host']}."
            )
            return DriverStatus(DriverPhase.UNKNOWN, reason)
        if there["boot"] != here["boot"]:
            return DriverStatus(DriverPhase.ENDED, "The host was restarted after the driver's start.")
        if there["namespace"] != here["namespace"]:
            return DriverStatus(DriverPhase.UNKNOWN, "The driver was started in another container.")
        return self._local_state(driver, handle)

    def logs(self, driver: StartedDriver, lines: int) -> str:
        """The end of the output, of the file before too where the current one is short."""
        output = self._folder(driver) / process_keeper.OUTPUT
        text = _end_of(output)
        if text.count("\n") < lines:
            text = _end_of(output.with_name(output.name + ".1")) + text
        return tail(text, lines)

    def _local_state(self, driver: StartedDriver, handle: Mapping[str, Any]) -> DriverStatus:
        ended = _read(self._folder(driver) / process_keeper.EXIT)
        if _living(handle):
            left = (
                ""
                if ended is None
                else " The driver's program has ended; processes that it started still run."
            )
            return DriverStatus(DriverPhase.RUNNING, f"Process {handle['pid']} runs.{left}")
        if ended is None and _is_alive(int(handle["keeper"]), handle["keeper_began"]):
            return DriverStatus(DriverPhase.RUNNING, "The driver is ending.")
        if ended is None:
            return DriverStatus(DriverPhase.ENDED, "The driver was killed together with its keeper.")
        return DriverStatus(DriverPhase.ENDED, _end_sentence(int(ended["code"])), float(ended["at"]))

    def _handle(self, driver: StartedDriver) -> Mapping[str, Any] | None:
        """How to find the driver; from the keeper's file where the server ended before it stored the handle."""
        return driver.handle or _read(self._folder(driver) / process_keeper.DRIVER)

    def _folder(self, driver: StartedDriver) -> Path:
        return self.directory / driver.launch_id

    def _remove_old(self) -> None:
        folders = sorted(self.directory.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[KEPT_LAUNCHES:]:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()


def _started_keeper(
    folder: Path, command: tuple[str, ...], cwd: str | None, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    deadline = time.time() + START_SECONDS
    try:
        folder.mkdir(mode=0o700, parents=True)
        return subprocess.Popen(
            # -I: the driver's PYTHONPATH and directory are not those of its keeper.
            [sys.executable, "-I", process_keeper.__file__, str(folder), str(deadline), *command],
            cwd=cwd,
            env=inherited() | _java() | with_agent(environment, os.environ.get("PYTHONPATH")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        named = f" ({error.filename})" if error.filename else ""
        raise LauncherError(f"the driver cannot be started: {error.strerror}{named}") from None


def inherited() -> dict[str, str]:
    """The server's environment for its drivers: without its own settings; `python` is the server's own."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE_PREFIX)}
    path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), found.get("PATH")]))
    return {**found, "PATH": path}


@cache
def _java() -> dict[str, str]:
    """Variables by which Spark finds Java; asked for once, as Java has to be run for it."""
    return java_environment() or {}


def _living(handle: Mapping[str, Any]) -> list[int]:
    """The living processes of a driver: of its group without the keeper, and its own where it left the group."""
    keeper, pid = int(handle["keeper"]), int(handle["pid"])
    kept = _is_alive(
        keeper, handle["keeper_began"]
    )  # before the list: it ends while the driver's JVM may live
    found = group_members(keeper)
    if keeper in found and not kept:
        found = []  # another group, which the system gave the number of the keeper after its end
    own = [pid] if _is_alive(pid, handle["began"]) else []
    return [member for member in dict.fromkeys([*own, *found]) if member != keeper]


def _is_over(handle: Mapping[str, Any]) -> bool:
    """Whether the driver has ended and its keeper has recorded it."""
    return not _living(handle) and not _is_alive(int(handle["keeper"]), handle["keeper_began"])


def _is_alive(pid: int, began: str | None) -> bool:
    return began is not None and start_time(pid) == began


def _check_place(handle: Mapping[str, Any]) -> None:
    if handle["place"] != place():
        raise LauncherError("the driver was started on another host or in another container", may_live=True)


def _unrecorded(folder: Path) -> DriverStatus:
    ended = _read(folder / process_keeper.EXIT)
    if ended is not None:
        reason = str(ended.get("reason") or _end_sentence(int(ended["code"])))
        return DriverStatus(DriverPhase.ENDED, reason, float(ended["at"]))
    if not folder.exists():
        return DriverStatus(DriverPhase.UNKNOWN, "This server has no record of the driver's process.")
    if time.time() - folder.stat().st_mtime > 2 * START_SECONDS:
        return DriverStatus(DriverPhase.ENDED, "The driver was never started.")
    return DriverStatus(DriverPhase.STARTING, "The driver is being started.")


def _end_sentence(code: int) -> str:
    if code < 0:
        return f"The driver was ended by {signal.Signals(-code).name}."
    return f"The driver ended with exit code {code}."


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _end_of(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - MAX_LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _fields(section: Section) -> LauncherSettings:
    return {"command": section.texts("command", needed=True), "cwd": section.path("cwd")}


def _build(settings: LauncherSettings, directory: Path) -> ProcessLauncher:
    return ProcessLauncher(tuple(settings["command"]), settings["cwd"], directory)


KIND = LauncherKind("process", ("command", "cwd"), _fields, _build)
