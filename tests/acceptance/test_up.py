"""`controlplane up`: server and dashboard in one command, and no process left after Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from tests.acceptance.live import eventually
from tests.ports import free_port


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_command_starts_both_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    ports = [str(free_port()), str(free_port())]
    command = [sys.executable, "-m", "controlplane.cli.main", "up", "--port", ports[0], "--ui-port", ports[1]]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert eventually(lambda: answers(f"http://127.0.0.1:{ports[0]}/readyz"))
        assert eventually(lambda: answers(f"http://127.0.0.1:{ports[1]}/_stcore/health"), 300)
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0
        assert process.stdout is not None
        printed = process.stdout.read()
        assert f"http://127.0.0.1:{ports[0]}" in printed
        assert f"http://127.0.0.1:{ports[1]}" in printed
        assert "alerts     Nobody is notified of alerts: the receiver default has no integration." in printed
        assert eventually(lambda: not any(alive(child) for child in children))
        assert not any(answers(f"http://127.0.0.1:{port}/") for port in ports)
    finally:
        process.kill()
        process.wait()


def test_a_page_port_in_use_is_the_users_mistake(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "controlplane.cli.main", "up", "--port", "0", "--ui-port", port]
        done = subprocess.run(
            [*command, "--data-dir", str(tmp_path / "data")],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        f"controlplane: cannot listen on 127.0.0.1:{port}: Address already in use"
    ]
