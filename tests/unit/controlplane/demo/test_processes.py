"""Children that leave nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.demo import processes

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc (Linux)")
#: A driver's likeness: starts a child in a group of its own (as PySpark's daemon is), states so, and waits.
PARENT = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: os.setpgid(0, 0))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("ready", flush=True)
time.sleep(60)
"""
POLITE = """
import time
print("ready", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("bye")
"""


def never() -> bool:
    return False


def started(code: str, log: Path, goodbye: signal.Signals = signal.SIGTERM) -> processes.Child:
    child = processes.start("child", [sys.executable, "-c", code], os.environ, log, goodbye)
    until(lambda: b"ready" in log.read_bytes())
    return child


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_session_is_read_past_a_command_with_blanks_and_brackets() -> None:
    assert processes.session_of("17 (a (b) c) S 1 17 4242 0 -1 4194560") == 4242


@needs_proc
def test_a_grandchild_in_a_group_of_its_own_is_killed_with_the_rest(tmp_path: Path) -> None:
    child = started(PARENT, tmp_path / "log")
    assert len(child.left()) == 2
    assert processes.stop_all([child], grace=0.5, hurry=never) == ["child"]
    assert child.left() == []


def test_a_child_that_obeys_is_not_killed(tmp_path: Path) -> None:
    child = started("import time; print('ready', flush=True); time.sleep(60)", tmp_path / "log")
    assert processes.stop_all([child], grace=20, hurry=never) == []
    assert child.exit_code == -signal.SIGTERM


def test_sigint_reaches_a_child_even_where_the_shell_had_it_ignored(tmp_path: Path) -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = started(POLITE, tmp_path / "log", signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, former)
    assert processes.stop_all([child], grace=20, hurry=never) == []
    assert b"bye" in (tmp_path / "log").read_bytes()


def test_asking_twice_cuts_the_waiting_short(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    )
    child = started(deaf, tmp_path / "log")
    began = time.monotonic()
    assert processes.stop_all([child], grace=60, hurry=lambda: True) == ["child"]
    assert time.monotonic() - began < 10


def test_a_child_that_has_exited_is_no_error(tmp_path: Path) -> None:
    child = started("print('ready', flush=True)", tmp_path / "log")
    until(lambda: child.exit_code is not None)
    assert processes.stop_all([child], grace=5, hurry=never) == []
