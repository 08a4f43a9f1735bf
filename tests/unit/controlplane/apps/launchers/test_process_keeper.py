"""Tests of the keeper of a local driver: identity, limits, and starts that come to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from controlplane.apps.launchers import process_keeper
from controlplane.apps.launchers.process_keeper import group_members, limit_output, start_time


def kept(directory: Path, *command: str, deadline: float | None = None) -> subprocess.CompletedProcess[str]:
    until = time.time() + 60 if deadline is None else deadline
    arguments = [sys.executable, "-I", process_keeper.__file__, str(directory), str(until), *command]
    return subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=60)


def read(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text()))


def test_the_end_of_the_driver_is_recorded(tmp_path: Path) -> None:
    assert kept(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3").returncode == 3
    assert read(tmp_path / "exit.json")["code"] == 3
    assert (tmp_path / "output.log").read_text() == "out\nerr\n"
    assert set(read(tmp_path / "driver.json")) == {"pid", "began", "keeper", "keeper_began", "place"}


def test_a_keeper_that_begins_too_late_starts_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path, "touch", str(tmp_path / "started"), deadline=time.time() - 1).returncode == 127
    assert not (tmp_path / "started").exists()
    assert "too late" in str(read(tmp_path / "exit.json")["reason"])


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    assert kept(tmp_path, "no-such-command").returncode == 127
    assert "no-such-command cannot be started" in str(read(tmp_path / "exit.json")["reason"])


def test_output_keeps_its_newest_part(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    with output.open("ab", buffering=0) as driver:
        driver.write(b"a" * 600 + b"b" * 500)
        limit_output(output, 2000)
        assert output.stat().st_size == 1100
        limit_output(output, 1000)
        driver.write(b"c")
    assert output.read_bytes() == b"c"
    assert (tmp_path / "output.log.1").read_bytes() == b"b" * 500


def test_a_process_is_known_by_its_start_time() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert start_time(child.pid) not in (None, start_time(os.getpid()))
        assert group_members(child.pid) == [child.pid]
    finally:
        child.kill()
    while start_time(child.pid) is not None:  # until it is a zombie, which counts as ended
        time.sleep(0.01)
    assert group_members(child.pid) == []
    child.wait()
