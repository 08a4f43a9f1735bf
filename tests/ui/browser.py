"""A real Chromium against the real Streamlit app, for what only a browser can show.

`tests/ui/conftest.py` makes fixtures of it: Streamlit as `controlplane ui` starts it, in front of the fake
server, and Debian's Chromium driven by Playwright. Where Chromium is missing the tests are skipped with the
line that says what to install; with CONTROLPLANE_REQUIRE_ALL=1 that is a failure.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ui import launch

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def need_chromium() -> str:
    """The path of the browser; else skip, or fail where everything is required."""
    if Path(CHROMIUM).exists():
        return CHROMIUM
    message = f"no browser at {CHROMIUM}: apt-get install -y chromium (or set CHROMIUM)"
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(message)
    pytest.skip(message)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def streamlit(server_url: str, token: str) -> Iterator[str]:
    """The app on a free port, started in a directory that is not the project's; yields its address."""
    port = free_port()
    environment = launch.environment(server_url, token=token, base=os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as elsewhere, (Path(elsewhere) / "log").open("w+") as log:
        process = subprocess.Popen(
            launch.command(port),
            cwd=elsewhere,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_up(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=10)
            log.seek(0)
            said = log.read()
    assert "Traceback" not in said, said


def _wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, "streamlit ended"
        try:
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("streamlit did not come up in 30 s")
