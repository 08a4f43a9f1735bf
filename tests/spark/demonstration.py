"""`controlplane demo` as a child process, with a client for its server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from controlplane.demo.scenarios import Trouble
from tests.ports import free_port

#: Seconds from the start to the first figures on a loaded machine; alone it takes about twenty.
FIRST_FIGURES = 300
#: The alert on a test machine that is too slow for the demonstration.
OF_THE_MACHINE = "HostOverloaded"


class Demo:
    """A demonstration as a child process; its output goes to a file."""

    def __init__(self, folder: Path, *arguments: str):
        self.data, self.output = folder / "data", folder / "output.txt"
        self.port, self.ui_port = free_port(), free_port()
        command = [sys.executable, "-m", "controlplane.cli.main", "demo", "--data-dir", str(self.data)]
        ports = ["--port", str(self.port), "--ui-port", str(self.ui_port)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen([*command, *ports, *arguments], stdout=output, stderr=output)

    def call(self, path: str, document: dict[str, Any] | None = None) -> Any:
        """GET, or POST where there is a document. OSError while the server does not answer."""
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            data=None if document is None else json.dumps(document).encode(),
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def queries(self) -> dict[str, dict[str, Any]]:
        """All queries by name."""
        return {query["name"]: query for query in self.call("queries")["queries"]}

    def statuses(self) -> dict[str, str]:
        return {name: query["status"] for name, query in self.queries().items()}

    def pages(self) -> dict[str, set[str]]:
        """Names of the firing, uninhibited alerts by query, or by application for alerts of a whole driver.

        Without those on the machine that the tests run on.
        """
        found: dict[str, set[str]] = {}
        for alert in self.call("alerts?state=firing")["alerts"]:
            causes = {cause["name"] for cause in alert["inhibited_by"]} - {OF_THE_MACHINE}
            if not causes and alert["name"] != OF_THE_MACHINE:
                found.setdefault(alert["query"] or alert["app"], set()).add(alert["name"])
        return found

    def shows_figures(self) -> bool:
        return any(query["batch_id"] is not None for query in self.queries().values())

    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def until(self, condition: Callable[[], Any], seconds: float, what: Callable[[], object]) -> Any:
        """Poll `condition` until it is truthy; on timeout the assertion shows `what()` and the output."""

        def value() -> Any:
            try:
                return condition()
            except OSError:  # the server is busy
                return None

        end = time.monotonic() + seconds
        while not (found := value()):
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < end, f"not within {seconds} s: {what()}\n{self.printed()[-6000:]}"
            time.sleep(0.5)
        return found

    def left(self) -> list[str]:
        """Command lines of running processes that mention this demonstration's data directory or ports."""
        marks = (str(self.data), f"127.0.0.1:{self.port}", str(self.ui_port))
        lines = [(pid, cmdline(pid)) for pid in Path("/proc").glob("[0-9]*")]
        ours = {str(self.process.pid), str(os.getpid())}
        return [
            line
            for pid, line in lines
            if pid.name not in ours and any(mark in line for mark in marks) and line
        ]

    def close(self) -> None:
        """End the demonstration, which ends its child processes."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()


def cmdline(pid: Path) -> str:
    """The command line and the environment of a process: a JVM names its folder in the latter alone."""
    try:
        return b" ".join((pid / name).read_bytes() for name in ("cmdline", "environ")).decode(
            errors="replace"
        )
    except OSError:
        return ""


def expected_statuses(troubles: Iterable[Trouble]) -> dict[str, str]:
    return {trouble.query: str(trouble.expected_status) for trouble in troubles}


def expected_pages(troubles: Iterable[Trouble]) -> dict[str, set[str]]:
    """The expected result of `Demo.pages`: AgentLost stands for all queries of its driver."""
    return {
        trouble.app if trouble.expected_alert == "AgentLost" else trouble.query: {trouble.expected_alert}
        for trouble in troubles
        if trouble.expected_alert is not None
    }
