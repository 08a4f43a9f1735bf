"""A server, drivers and the command line as processes, and input files for the drivers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.paths import ROOT
from tests.ports import free_port

PROGRAMS = Path(__file__).parent / "programs"
SCHEMA = "key INT, value STRING"
#: A query without new data reports it every second instead of every 10 s (Spark's default).
QUICK_IDLE = "--conf spark.sql.streaming.noDataProgressEventInterval=1000 pyspark-shell"


def wait_for(condition: Callable[[], Any], timeout: float = 300.0, every: float = 0.1) -> Any:
    """Poll `condition` until it is truthy and return its value; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not seen within {timeout} s: {condition}"
        time.sleep(every)
    return value


class Deployment:
    """A server on its own port and the processes that use it. `close` kills them all."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = directory / "data"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.server = self.start_server()

    # -- processes -------------------------------------------------------------------------------

    def start_server(self) -> subprocess.Popen[bytes]:
        self.server = self._spawn(
            ["-m", "controlplane", "serve", "--port", str(self.port), "--data-dir", str(self.data)], "server"
        )
        wait_for(self._is_ready, 300)
        return self.server

    def _is_ready(self) -> bool:
        assert self.server.poll() is None, (self.directory / "server.log").read_text()[-3000:]
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill_server(self) -> None:
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    def drive(
        self, program: str, *arguments: str, app: str = "two-queries", **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a plain program under `controlplane run`, with more variables in its environment."""
        return self._spawn(
            [
                "-m",
                "controlplane",
                "run",
                "--app",
                app,
                "--server",
                self.url,
                str(PROGRAMS / program),
                *arguments,
            ],
            app,
            **environment,
        )

    def _spawn(self, arguments: list[str], name: str, **more: str) -> subprocess.Popen[bytes]:
        environment = dict(
            os.environ,
            PYTHONPATH=str(ROOT),
            PYSPARK_PYTHON=sys.executable,
            PYSPARK_SUBMIT_ARGS=QUICK_IDLE,
            CONTROLPLANE_DATA_DIR=str(self.data),
            CONTROLPLANE_SPOOL_DIR=str(self.directory / "spool"),
        )
        environment.update(more)
        with open(self.directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Let `close` kill a process that leads a session of its own."""
        self._processes.append(process)

    def close(self) -> None:
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    # -- clients ---------------------------------------------------------------------------------

    def cli(self, *arguments: str, timeout: float = 400) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "controlplane", *arguments, "--server", self.url],
            env=dict(os.environ, PYTHONPATH=str(ROOT), CONTROLPLANE_DATA_DIR=str(self.data)),
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def act(self, action: str, query: str, *arguments: str) -> dict[str, Any]:
        """Run an action by command line, assert that it succeeds, and return its JSON."""
        done = self.cli(action, query, "--json", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def get(self, path: str) -> Any:
        return self._ask(path)

    def post(self, path: str, document: Any) -> Any:
        return self._ask(path, json.dumps(document).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(self.url + path, body, {"Authorization": "Bearer " + token})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def queries(self) -> dict[str, dict[str, Any]]:
        try:
            return {query["name"]: query for query in self.get("/api/v1/queries")["queries"]}
        except (urllib.error.URLError, ConnectionError):
            return {}

    def batches(self, query_id: str) -> list[tuple[str, int]]:
        """(run id, batch id) of every stored progress event of a query, in storage order."""
        found, after = [], 0
        while True:
            page = self.get(f"/api/v1/queries/{query_id}/events?type=progress&after={after}&limit=1000")
            found += [(event["data"]["runId"], event["data"]["batchId"]) for event in page["events"]]
            if page.get("next") is None:
                return found
            after = page["next"]


class Feed:
    """JSON files with numbered rows; each is renamed into place, so that Spark never reads half a file."""

    def __init__(self, directory: Path):
        directory.mkdir(parents=True)
        self.directory = directory
        self.rows: list[tuple[int, str]] = []

    def add(self, count: int = 20) -> None:
        rows = [(number, f"value {number}") for number in range(len(self.rows), len(self.rows) + count)]
        name = f"{len(self.rows):08d}.json"
        text = "\n".join(json.dumps({"key": key, "value": value}) for key, value in rows)
        (self.directory / ("." + name)).write_text(text)
        (self.directory / ("." + name)).rename(self.directory / name)
        self.rows += rows

    def sink_holds_all(self, spark: Any, path: Path) -> bool:
        """Whether a file sink holds every row once, read through its `_spark_metadata` log.

        Without the log, a reader may also see files of interrupted batches.
        """
        if not (path / "_spark_metadata").exists():
            return False
        found = spark.read.schema(SCHEMA).json(str(path)).collect()
        return sorted((row.key, row.value) for row in found) == self.rows
