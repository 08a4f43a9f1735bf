"""Tests of local drivers beyond the contract: groups, other hosts, the environment, and a server that ended early."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps.launchers import process
from controlplane.apps.launchers.process import ProcessLauncher, inherited
from controlplane.apps.launchers.process_keeper import group_members, start_time
from controlplane.apps.launchers.seam import Launch, wait_until
from controlplane.apps.model import DriverPhase, LauncherError, StartedDriver

DRIVER = StartedDriver("billing", "l1", "process", {}, "1", time.time(), "ada")
#: A driver that ignores SIGTERM, with a child in its group that outlives it.
STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"])
print("up", flush=True)
time.sleep(600)
"""


class Started:
    """A launcher with its started driver."""

    def __init__(self, directory: Path, *command: str):
        self.launcher = ProcessLauncher(command, None, directory)
        self.driver = replace(DRIVER, handle=self.launcher.start(Launch(DRIVER, {"A": "b"})))

    @property
    def handle(self) -> dict[str, Any]:
        return dict(self.driver.handle or {})

    def phase(self, **changes: object) -> DriverPhase:
        return self.launcher.state(replace(self.driver, **changes)).phase  # type: ignore[arg-type]

    def in_place(self, **changes: str) -> DriverPhase:
        return self.phase(handle=self.handle | {"place": self.handle["place"] | changes})


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    made = Started(tmp_path / "apps", sys.executable, "-c", STUBBORN)
    assert wait_until(lambda: made.launcher.logs(made.driver, 5) == "up", 20)
    yield made
    made.launcher.stop(made.driver, 0.0)


def test_the_end_is_that_of_the_whole_group(started: Started) -> None:
    os.kill(started.handle["pid"], signal.SIGKILL)
    assert wait_until(lambda: _exited(started), 10)
    assert "processes that it started still run" in started.launcher.state(started.driver).reason
    assert started.phase() is DriverPhase.RUNNING
    started.launcher.stop(started.driver, 0.0)
    found = started.launcher.state(started.driver)
    assert (found.phase, found.reason) == (DriverPhase.ENDED, "The driver was ended by SIGKILL.")


def test_a_keeper_that_ends_during_the_look_hides_no_process(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed_before_the_keepers_end(group: int) -> list[int]:
        found = group_members(group)
        os.kill(started.handle["pid"], signal.SIGKILL)
        assert wait_until(lambda: start_time(group) is None, 60)
        return found

    monkeypatch.setattr(process, "group_members", listed_before_the_keepers_end)
    assert started.phase() is DriverPhase.RUNNING
    monkeypatch.undo()


def _exited(started: Started) -> bool:
    return (started.launcher.directory / "l1" / "exit.json").exists()


def test_a_driver_that_ignores_sigterm_is_killed_after_the_grace(started: Started) -> None:
    started.launcher.stop(started.driver, 0.3)
    assert started.phase() is DriverPhase.ENDED


def test_a_server_that_ended_before_it_stored_the_handle_finds_the_driver(started: Started) -> None:
    assert started.phase(handle=None) is DriverPhase.RUNNING


def test_processes_of_another_place(started: Started) -> None:
    assert started.in_place(host="elsewhere") is DriverPhase.UNKNOWN
    assert started.in_place(namespace="pid:[1]") is DriverPhase.UNKNOWN
    assert started.in_place(boot="another") is DriverPhase.ENDED
    foreign = replace(started.driver, handle=started.handle | {"place": {"host": "elsewhere"}})
    with pytest.raises(LauncherError, match="another host") as error:
        started.launcher.stop(foreign, 0.0)
    assert error.value.may_live


def test_a_process_id_that_is_used_again_is_another_process(started: Started) -> None:
    reused = started.handle | {"pid": os.getpid(), "keeper": 2**22, "began": "1"}
    assert started.phase(handle=reused) is DriverPhase.ENDED


def test_a_launch_without_a_trace_is_unknown(tmp_path: Path) -> None:
    assert ProcessLauncher(("x",), None, tmp_path).state(DRIVER).phase is DriverPhase.UNKNOWN
    (tmp_path / "l1").mkdir()
    os.utime(tmp_path / "l1", (1.0, 1.0))  # long ago: the keeper's deadline is over
    assert ProcessLauncher(("x",), None, tmp_path).state(DRIVER).phase is DriverPhase.ENDED


@pytest.mark.parametrize(("command", "cwd"), [("no-such-command", None), ("true", "/no/such/folder")])
def test_what_cannot_be_started_is_named(tmp_path: Path, command: str, cwd: str | None) -> None:
    with pytest.raises(LauncherError, match=cwd or command) as error:
        ProcessLauncher((command,), cwd, tmp_path).start(Launch(DRIVER, {}))
    assert not error.value.may_live


def test_the_servers_own_settings_are_not_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_DATABASE_URL", "postgresql://u:secret@db/x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    found = inherited()
    assert not any(name.startswith("CONTROLPLANE_") for name in found)
    assert found["HTTPS_PROXY"] == "http://proxy:3128"
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_output_of_old_launches_is_removed(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"old{number}").mkdir()
        (tmp_path / f"old{number}" / "output.log").write_text("x")
        os.utime(tmp_path / f"old{number}", (number, number))
    Started(tmp_path, "true")
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["l1", "old4", "old5", "old6", "old7"]
    assert json.loads((tmp_path / "l1" / "driver.json").read_text())["pid"]
