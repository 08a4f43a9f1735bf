"""Child processes in sessions of their own, stopped with all their descendants.

Ctrl-C in the terminal reaches only the parent, which stops the children in order. A PySpark driver has children of
its own (the JVM, Python workers in their own process groups); all are found by the driver's session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from controlplane.runtime.child_processes import die_with_parent


def session_of(stat: str) -> int:
    """The session id in a `/proc/<pid>/stat` line; the command in it may contain spaces and parentheses."""
    return int(stat.rpartition(")")[2].split()[3])


def members(session: int) -> list[int]:
    """Process ids of a session without zombies; empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if session_of(stat) == session and stat.rpartition(")")[2].split()[0] != "Z":
            found.append(int(entry.name))
    return found


def _become_child() -> Callable[[], None]:
    """What a child does before exec: restore SIGINT, and end when its parent is killed (Linux)."""
    end_with_parent = die_with_parent()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_with_parent()

    return prepare


class Child:
    """A started process with its log file. `stop_signal` asks it to end by itself."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, stop_signal: signal.Signals):
        self.name, self.process, self.log, self.stop_signal = name, process, log, stop_signal

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def ask(self) -> None:
        """Ask the session's leader to end; it ends what it started."""
        if self.exit_code is None:
            self.process.send_signal(self.stop_signal)

    def left(self) -> list[int]:
        """Process ids of its session that still run."""
        self.process.poll()  # reap it
        return members(self.process.pid)

    def kill(self) -> None:
        """Kill the whole session and wait up to 5 s until it has ended."""
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
        pass  # it has ended


def start(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    stop_signal: signal.Signals = signal.SIGTERM,
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
    return Child(name, process, log, stop_signal)


def stop_all(
    children: Sequence[Child],
    grace: float,
    hurry: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Ask all to end, wait until none of their processes is left, kill the rest after `grace` seconds.

    Returns the names of the killed. The wait ends early when `hurry()` is true.
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
