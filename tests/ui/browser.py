"""A real Chromium before the real Streamlit app.

`tests/ui/conftest.py` makes fixtures of it: Streamlit as `controlplane ui` starts it, before the fake server,
and Debian's Chromium driven by Playwright. Without Chromium the tests are skipped with a line on what to
install; with CONTROLPLANE_REQUIRE_ALL=1 they fail.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from ui import launch

ROW = 33  # pixels, as the Fleet page sets it
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def need_chromium() -> str:
    """The path of the browser; otherwise skip, or fail if everything is required."""
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
            output = log.read()
    assert "Traceback" not in output, output


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


class Screen:
    """One viewer's page, and its requests to foreign addresses."""

    def __init__(self, page: Any, address: str):
        self.page = page
        self.address = address
        self.foreign: list[str] = []
        self.alerts: list[str] = []
        page.on("request", self._note)
        page.on("dialog", lambda box: (self.alerts.append(box.message), box.dismiss()))

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(request.url)

    def go(self, path: str) -> Screen:
        self.page.goto(self.address + path)
        self.page.get_by_text("as of").first.wait_for()
        return self

    def rows(self) -> list[str]:
        """The rows of the first table, from the table that screen readers see."""
        table = self.page.locator('[data-testid="stDataFrame"]').first
        return table.locator('tbody tr[role="row"]').all_text_contents()

    def first_row(self) -> str:
        return "".join(self.rows()[:1])

    def stamp(self) -> str:
        return str(self.page.get_by_text(re.compile(r"as of \d")).first.inner_text())

    def click_name(self, row: int) -> None:
        """The second column of that row of the table; row -1 is the column's head."""
        box = self.page.locator('[data-testid="stDataFrame"] canvas').first.bounding_box()
        self.page.mouse.click(box["x"] + 160, box["y"] + ROW * (row + 1.5))


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"condition not true within {seconds} s"
        time.sleep(0.1)
