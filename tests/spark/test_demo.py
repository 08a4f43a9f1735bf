"""`controlplane demo` for real: its figures, its troubles, and that nothing of it is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo import scenarios

pytestmark = [pytest.mark.spark, pytest.mark.long]

#: Seconds from the start to the first figures on two busy cores; alone it takes about twenty.
FIRST_FIGURES = 90
#: The poison comes a minute after the feeding began; lag must have grown for half a minute.
ALL_TROUBLES = 150


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Demo:
    """A demonstration as a child process, with its printed lines in a file."""

    def __init__(self, folder: Path, *arguments: str):
        self.data, self.output = folder / "data", folder / "output.txt"
        self.port, self.ui_port = free_ports(2)
        command = [sys.executable, "-m", "controlplane.cli.main", "demo", "--data-dir", str(self.data)]
        ports = ["--port", str(self.port), "--ui-port", str(self.ui_port)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen([*command, *ports, *arguments], stdout=output, stderr=output)

    def queries(self) -> dict[str, dict[str, Any]]:
        """The fleet by name; empty while the server does not answer."""
        try:
            token = (self.data / "admin.token").read_text().strip()
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}/api/v1/queries", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request, timeout=5) as answer:
                return {query["name"]: query for query in json.load(answer)["queries"]}
        except OSError:
            return {}

    def left(self) -> list[str]:
        """Command lines of processes that still mention this demonstration's data directory or ports."""
        marks = (str(self.data), f"127.0.0.1:{self.port}", str(self.ui_port))
        lines = [(pid, cmdline(pid)) for pid in Path("/proc").glob("[0-9]*")]
        ours = {str(self.process.pid), str(os.getpid())}
        return [
            line
            for pid, line in lines
            if pid.name not in ours and any(mark in line for mark in marks) and line
        ]


def cmdline(pid: Path) -> str:
    """The command line and the environment of a process: a JVM names its folder in the latter alone."""
    try:
        return b" ".join((pid / name).read_bytes() for name in ("cmdline", "environ")).decode(
            errors="replace"
        )
    except OSError:
        return ""


def until(true: Callable[[], Any], seconds: float, what: str, demo: Demo) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert demo.process.poll() is None, demo.output.read_text()
        assert time.monotonic() < end, f"no {what} within {seconds} s:\n{demo.output.read_text()}"
        time.sleep(0.5)
    return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def begin(*arguments: str) -> Demo:
        started.append(Demo(tmp_path, *arguments))
        return started[-1]

    yield begin
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()


def statuses(demo: Demo) -> dict[str, str]:
    return {name: query["status"] for name, query in demo.queries().items()}


def test_each_trouble_shows_the_status_it_promises_and_ctrl_c_leaves_nothing_behind(
    start: Callable[..., Demo],
) -> None:
    demo = start()
    until(
        lambda: any(q["batch_id"] is not None for q in demo.queries().values()),
        FIRST_FIGURES,
        "figures",
        demo,
    )
    expected = {trouble.query: str(trouble.expected_status) for trouble in scenarios.TROUBLES}
    until(lambda: statuses(demo) == expected, ALL_TROUBLES, f"fleet of {expected}", demo)
    assert demo.left()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=40) == 0, demo.output.read_text()
    assert demo.left() == []


def test_a_demonstration_of_so_many_minutes_ends_by_itself_and_cleanly(start: Callable[..., Demo]) -> None:
    demo = start("--minutes", "0.7", "--only", "steady_copy")
    assert demo.process.wait(timeout=150) == 0, demo.output.read_text()
    printed = demo.output.read_text()
    assert "first figures after" in printed
    assert "had to be killed" not in printed
    assert demo.left() == []


def test_a_port_in_use_is_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "controlplane.cli.main", "demo", "--port", port]
        answer = subprocess.run(
            [*command, "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
        )
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert f"port {port} is in use" in answer.stderr
