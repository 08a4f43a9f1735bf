"""Launcher by commands of the file: for whatever has no launcher of its own (YARN, Airflow, a script).

Each command runs on the server's host with the driver's environment, and is ended after `timeout`. `start` prints
what identifies the driver in its last line, which the other commands get as `CONTROLPLANE_DRIVER`. `state` prints
`starting`, `running` or `ended` in its first word, and the reason after it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from controlplane.apps.launchers.process import inherited
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

TIMEOUT_SECONDS = 60.0
MAX_REASON_CHARS = 300
STATES = {phase.value: phase for phase in (DriverPhase.STARTING, DriverPhase.RUNNING, DriverPhase.ENDED)}


@dataclass(frozen=True)
class CommandLauncher:
    """Runs commands to start, stop and observe drivers."""

    start_command: tuple[str, ...]
    stop_command: tuple[str, ...]
    state_command: tuple[str, ...]
    logs_command: tuple[str, ...]
    cwd: str | None
    timeout: float

    def start(self, launch: Launch) -> Mapping[str, Any]:
        """Run `start`; the last line of its output identifies the driver."""
        code, output = self._run(self.start_command, launch.driver, launch.environment)
        if code != 0:
            # Whoever submits may have submitted before it failed.
            raise LauncherError(f"start failed with exit code {code}: {_last_line(output)}", may_live=True)
        return {"driver": _last_line(output)}

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        """Run `stop`, then wait until `state` prints `ended`."""
        if self.state(driver).phase is DriverPhase.ENDED:
            return
        grace = {"CONTROLPLANE_GRACE_SECONDS": f"{grace_seconds:g}"}
        code, output = self._run(self.stop_command, driver, grace)
        if code != 0:
            raise LauncherError(f"stop failed with exit code {code}: {_last_line(output)}", may_live=True)
        if not wait_until(lambda: self.state(driver).phase is DriverPhase.ENDED, grace_seconds):
            raise LauncherError(f"the driver did not end within {grace_seconds:g} s of the stop", True)

    def state(self, driver: StartedDriver) -> DriverStatus:
        """What `state` prints; unknown where it fails."""
        try:
            code, output = self._run(self.state_command, driver, {})
        except LauncherError as error:
            return DriverStatus(DriverPhase.UNKNOWN, f"{error}.")
        word, _, reason = output.strip().partition("\n")[0].partition(" ")
        if code != 0 or word not in STATES:
            shown = _last_line(output) or "nothing"
            return DriverStatus(
                DriverPhase.UNKNOWN, f"state ended with exit code {code} and printed: {shown}"
            )
        return DriverStatus(STATES[word], reason[:MAX_REASON_CHARS] or f"The command printed {word}.")

    def logs(self, driver: StartedDriver, lines: int) -> str:
        """What `logs` prints."""
        if not self.logs_command:
            return "This launcher has no logs command."
        return tail(self._run(self.logs_command, driver, {"CONTROLPLANE_LINES": str(lines)})[1], lines)

    def _run(
        self, command: tuple[str, ...], driver: StartedDriver, added: Mapping[str, str]
    ) -> tuple[int, str]:
        """Exit code and output of a command; LauncherError where it cannot run or takes too long."""
        known = {"CONTROLPLANE_APP": driver.app, "CONTROLPLANE_LAUNCH": driver.launch_id}
        handle = {"CONTROLPLANE_DRIVER": str((driver.handle or {}).get("driver") or "")}
        # A file, not a pipe: a driver that the command leaves behind may hold its output open.
        with tempfile.TemporaryFile() as output:
            code = self._finished(command, inherited() | known | handle | dict(added), output)
            output.seek(max(0, output.seek(0, os.SEEK_END) - MAX_LOG_BYTES))
            return code, output.read().decode(errors="replace")

    def _finished(self, command: tuple[str, ...], environment: dict[str, str], output: IO[bytes]) -> int:
        try:
            child = subprocess.Popen(
                command,
                cwd=self.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise LauncherError(f"{command[0]} cannot be run: {error.strerror}") from None
        try:
            return child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise LauncherError(
                f"{command[0]} took longer than {self.timeout:g} s and was ended", True
            ) from None


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1][:MAX_REASON_CHARS] if lines else ""


def _fields(section: Section) -> LauncherSettings:
    timeout = section.reader.seconds(section.fields, "timeout", least=0.1)
    return {
        "start": section.texts("start", needed=True),
        "stop": section.texts("stop", needed=True),
        "state": section.texts("state", needed=True),
        "logs": section.texts("logs"),
        "cwd": section.path("cwd"),
        "timeout": TIMEOUT_SECONDS if timeout is None else timeout,
    }


def _build(settings: LauncherSettings, directory: Path) -> CommandLauncher:
    start, stop, state, logs = (tuple(settings[name]) for name in ("start", "stop", "state", "logs"))
    return CommandLauncher(start, stop, state, logs, settings["cwd"], settings["timeout"])


KIND = LauncherKind("command", ("start", "stop", "state", "logs", "cwd", "timeout"), _fields, _build)
