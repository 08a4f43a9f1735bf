"""A real Chromium before the real Streamlit app.

`tests/ui/conftest.py` makes fixtures of it: Streamlit as `controlplane ui` starts it, before the fake server,
and Debian's Chromium driven by Playwright. Without Chromium the tests are skipped with a line on what to
install; with CONTROLPLANE_REQUIRE_ALL=1 they fail.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
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
from tests.ports import free_port
from ui import launch
from ui.launch import LogIn

ROW = 33  # pixels, as the pages set it
#: Of each step in a page; one takes a tenth of a second, and much longer on a loaded machine.
TIMEOUT_MILLISECONDS = 120_000
# Debian's shell without windows draws the same pages with a third less CPU than the whole browser.
_INSTALLED = (path for name in ("chromium-headless-shell", "chromium") if (path := shutil.which(name)))
CHROMIUM = os.environ.get("CHROMIUM") or next(_INSTALLED, "/usr/bin/chromium-headless-shell")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def need_chromium() -> str:
    """The path of the browser; otherwise skip, or fail if everything is required."""
    if Path(CHROMIUM).exists():
        return CHROMIUM
    message = f"no browser at {CHROMIUM}: apt-get install -y chromium-headless-shell (or set CHROMIUM)"
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def streamlit(
    server_url: str, token: str, port: int | None = None, log_in: LogIn | None = None, **options: Any
) -> Iterator[str]:
    """The app on a free port, started in a directory that is not the project's; yields its address.

    `options` are those of `launch.command`.
    """
    port = port or free_port()
    environment = launch.environment(server_url, token=token, base=os.environ, log_in=log_in)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as elsewhere, (Path(elsewhere) / "log").open("w+") as log:
        process = subprocess.Popen(
            launch.command(port, log_in=log_in, **options),
            cwd=elsewhere,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            address = f"{'https' if options.get('tls') else 'http'}://127.0.0.1:{port}"
            _wait_until_up(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=60)
            log.seek(0)
            output = log.read()
    assert not _own_errors(output)


#: A traceback or stack in the log with the line before it, and the exception after it.
TRACEBACK = re.compile(
    r"^(.*)\n(?:Traceback|Stack) \(most recent call last\):\n((?:[ \t].*\n)+)(?=(.*)$)", re.MULTILINE
)


def _own_errors(log: str) -> list[str]:
    """The errors whose traceback passes through the app: its library logs those of viewers that left, too."""
    found = [match.groups() for match in TRACEBACK.finditer("\n" + log)]
    return [
        f"{before}\n{frames[-800:]}{error}" for before, frames, error in found if f'"{ROOT}/ui/' in frames
    ]


def _wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "streamlit ended"
        try:
            tls = ssl._create_unverified_context()
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=1, context=tls).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("streamlit did not come up in 120 s")


class Screen:
    """One viewer's page, and its requests to foreign addresses."""

    def __init__(self, page: Any, address: str):
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
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
        """The rows of the first table, as screen readers get them."""
        return self._table().locator('tbody tr[role="row"]').all_text_contents()

    def _table(self) -> Any:
        return self.page.locator('[data-testid="stDataFrame"], .stBidiComponent').first

    def first_row(self) -> str:
        return "".join(self.rows()[:1])

    def stamp(self) -> str:
        return str(self.page.get_by_text(re.compile(r"as of \d")).first.inner_text())

    def click_name(self, row: int) -> None:
        """The name in that row of the table; row -1 is the head of the names' column."""
        names = self._table().locator("tbody tr a")
        if names.count():
            (names.nth(row) if row >= 0 else self._table().get_by_role("button", name="Query")).click()
            return
        box = self._table().locator("canvas").first.bounding_box()
        self.page.mouse.click(box["x"] + 160, box["y"] + ROW * (row + 1.5))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"condition not true within {seconds} s"
        time.sleep(0.1)
