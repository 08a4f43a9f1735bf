"""What the demonstration checks before it starts anything, and how it receives Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from controlplane.console.errors import UsageProblem
from controlplane.demo import fleet, launch, scenarios
from controlplane.demo.interrupts import Interrupts
from controlplane.demo.launch import Options
from tests.ports import free_port


def options(tmp_path: Path, port: int = 0, ui_port: int = 0) -> Options:
    return Options(tmp_path, port, ui_port, scenarios.TROUBLES)


@pytest.mark.parametrize("which", ["port", "ui_port"])
def test_a_port_in_use_is_named_with_the_option_that_changes_it(which: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((fleet.HOST, 0))
        taken.listen()
        ports = {"port": free_port(), "ui_port": free_port(), which: taken.getsockname()[1]}
        with pytest.raises(UsageProblem, match=f"--{which.replace('_', '-')}$"):
            fleet.check(options(tmp_path, **ports))


def test_one_port_for_both_is_a_mistake(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(UsageProblem, match="must differ"):
        fleet.check(options(tmp_path, port, port))


def test_without_java_the_error_names_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "java_environment", lambda: None)
    with pytest.raises(UsageProblem, match="Java 17"):
        fleet.check(options(tmp_path, free_port(), free_port()))


def test_the_users_own_settings_do_not_reach_the_children(tmp_path: Path) -> None:
    mine = {"CONTROLPLANE_DATABASE_URL": "postgresql://precious", "HOME": "/home/me"}
    environ = launch.environment(options(tmp_path, 1234), mine)
    assert "CONTROLPLANE_DATABASE_URL" not in environ
    assert environ["HOME"] == "/home/me"
    assert environ["CONTROLPLANE_URL"] == "http://127.0.0.1:1234"


def test_a_signal_ends_the_waiting_and_the_former_handler_returns() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        began = time.monotonic()
        assert interrupts.wait(30)
        assert time.monotonic() - began < 10
        assert interrupts.count == 1
    assert signal.getsignal(signal.SIGTERM) is former
