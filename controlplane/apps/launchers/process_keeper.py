"""Keeper of one local driver: starts it, limits its output files and records how it ended.

Run as a program by `controlplane.apps.launchers.process`, in a session of its own: `python process_keeper.py DIRECTORY
DEADLINE COMMAND…`; after DEADLINE (Unix seconds) it starts nothing. It outlives the server, so that a later server learns
how the driver ended. The driver writes to its output file itself, so the end of the keeper does not disturb it.

Files of the directory: `driver.json` (the processes), `exit.json` (the end), `output.log` and `output.log.1`. A process is
identified by more than its number, which the system uses again: by start time, boot and namespace of process ids.
Standard library only, since it runs as a file.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DRIVER, EXIT, OUTPUT = "driver.json", "exit.json", "output.log"
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
CHECK_SECONDS = 1.0
CANNOT_START = 127
PROC = Path("/proc")


def main(arguments: list[str]) -> int:
    """Start the command and wait for its end; its exit code, 127 where it was not started."""
    directory, deadline, command = Path(arguments[0]), float(arguments[1]), arguments[2:]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The driver is signalled, not its keeper. A handler, unlike SIG_IGN, is not inherited by the driver.
        signal.signal(number, lambda *_: None)
    if time.time() > deadline:
        return _refuse(directory, "The driver was not started: its keeper began too late.")
    try:
        child = _started(directory, command)
    except OSError as error:
        return _refuse(directory, f"{command[0]} cannot be started: {error.strerror or error}.")
    try:
        write(directory / DRIVER, identity(child.pid))
    except OSError:
        child.kill()  # nobody could find this driver again
        raise
    code = _kept(child, directory / OUTPUT)
    write(directory / EXIT, {"code": code, "at": time.time()})
    return code if code >= 0 else 128 - code


def _refuse(directory: Path, reason: str) -> int:
    write(directory / EXIT, {"code": CANNOT_START, "at": time.time(), "reason": reason})
    return CANNOT_START


def _started(directory: Path, command: list[str]) -> subprocess.Popen[bytes]:
    with open(directory / OUTPUT, "ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def _kept(child: subprocess.Popen[bytes], output: Path) -> int:
    """Limit the output until the child ends; its exit code."""
    while True:
        try:
            return child.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            limit_output(output, MAX_OUTPUT_BYTES)


def limit_output(output: Path, limit: int) -> None:
    """Move the newest half of a file over `limit` bytes to `….1` and empty it. The writer appends, so it goes on."""
    try:
        size = output.stat().st_size
        if size <= limit:
            return
        with open(output, "rb+") as file:
            file.seek(max(0, size - limit // 2))
            output.with_name(output.name + ".1").write_bytes(file.read())
            file.truncate(0)
    except OSError:
        pass  # the disk is full or the directory is gone: the driver matters more than its output


def write(path: Path, document: dict[str, Any]) -> None:
    """Write JSON atomically: a reader sees a whole file or none."""
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(document), encoding="utf-8")
    os.replace(draft, path)


def identity(pid: int) -> dict[str, Any]:
    """The driver's process and its keeper, this process, as they are found again."""
    keeper = os.getpid()
    return {
        "pid": pid,
        "began": start_time(pid),
        "keeper": keeper,
        "keeper_began": start_time(keeper),
        "place": place(),
    }


def place() -> dict[str, str]:
    """Where process ids are valid: host, boot and namespace; the last two are empty on systems without /proc."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(PROC / "self/ns/pid")
    except OSError:
        boot = namespace = ""
    return {"host": socket.gethostname(), "boot": boot, "namespace": namespace}


def start_time(pid: int) -> str | None:
    """When a process began, as the system writes it; None where there is no such process, or only its zombie."""
    if PROC.joinpath("self/stat").exists():
        fields = _stat(pid)
        return fields[19] if fields and fields[0] not in "ZX" else None
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def group_members(group: int) -> list[int]:
    """Processes of a process group, without zombies. The group's number is not used again while it has members."""
    if not PROC.joinpath("self/stat").exists():
        shown = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False)
        return [int(pid) for pid in shown.stdout.split()]
    pids = (int(name) for name in os.listdir(PROC) if name.isdigit())
    return [pid for pid in pids if (found := _stat(pid)) and found[0] not in "ZX" and int(found[2]) == group]


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on: the program's name before them may hold anything."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
