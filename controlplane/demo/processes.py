"""Child processes that leave nothing behind.

Each child leads a session of its own, so that Ctrl-C in the terminal reaches only us and we stop the
children in order. A PySpark driver has children in turn (the JVM, Python workers in groups of their own);
all stay in the driver's session, and by that they are found.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from controlplane.runtime.child_processes import ends_with_us


def session_of(stat: str) -> int:
    """The session id in one `/proc/<pid>/stat` line; the command before it may hold blanks and brackets."""
    return int(stat.rpartition(")")[2].split()[3])


def members(session: int) -> list[int]:
    """Process ids that live in a session, zombies left out; empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended while we looked
        if session_of(stat) == session and stat.rpartition(")")[2].split()[0] != "Z":
            found.append(int(entry.name))
    return found


def _become_child() -> Callable[[], None]:
    """What a child does before it runs: take SIGINT again, and end if we are killed (Linux)."""
    end_with_us = ends_with_us()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_with_us()

    return prepare


class Child:
    """A started process with its log file. `farewell`: the signal that asks it to end in good order."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, farewell: signal.Signals):
        self.name, self.process, self.log, self.farewell = name, process, log, farewell

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def ask(self) -> None:
        """Ask the leader alone: it knows best how to end what it started."""
        if self.exit_code is None:
            self.process.send_signal(self.farewell)

    def left(self) -> list[int]:
        """Process ids of its session that still run."""
        self.process.poll()  # reap it
        return members(self.process.pid)

    def kill(self) -> None:
        """Kill its whole session, and see it gone: a killed process takes a moment to end."""
        if self.exit_code is None:
            self.process.kill()
            self.process.wait(timeout=10)
        deadline = time.monotonic() + 5
        while (left := self.left()) and time.monotonic() < deadline:
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.02)


def _signal(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except (ProcessLookupError, PermissionError):
        pass  # it went by itself


def start(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    farewell: signal.Signals = signal.SIGTERM,
) -> Child:
    """Start a program in a session of its own, its output into `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_become_child(),  # noqa: PLW1509 - no thread runs yet when the demo starts children
        )
    return Child(name, process, log, farewell)


def stop_all(
    children: Sequence[Child],
    grace: float,
    hurry: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Ask all to end, wait until none of their processes is left, kill the rest after `grace` seconds.

    Returns the names of those that had to be killed. `hurry()` true cuts the waiting short.
    """
    for child in children:
        child.ask()
    deadline = time.monotonic() + grace
    while any(child.left() or child.exit_code is None for child in children):
        if time.monotonic() > deadline or hurry():
            break
        sleep(0.1)
    stubborn = [child for child in children if child.left() or child.exit_code is None]
    for child in stubborn:
        child.kill()
    return [child.name for child in stubborn]
