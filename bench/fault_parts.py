"""Drivers, a reader of endpoints and a server that can be killed, for the soak of faults.

Not a benchmark: `bench/faults.py` imports it.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.drivers import Driver, report  # noqa: E402

EVENTS = 20
ANSWER_SECONDS, READY_SECONDS = 5.0, 120.0
#: A server whose clock is off by the seconds in a file.
CLOCK = """
import sys, time
from pathlib import Path
from controlplane.api.server import listen, make_server
from controlplane.app import build
from controlplane.settings import Settings
port, data_dir, shift = sys.argv[1:]
def clock():
    try:
        return time.time() + float(Path(shift).read_text() or 0)
    except (OSError, ValueError):
        return time.time()
with listen("127.0.0.1", int(port)) as listener:
    make_server(build(Settings(data_dir=Path(data_dir)), clock)).run(sockets=[listener])
"""
ENDPOINTS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/queries",
    "/api/v1/queries/{query}",
    "/api/v1/queries/{query}/progress",
    "/api/v1/queries/{query}/timeline",
    "/api/v1/agents",
    "/api/v1/alerts",
    "/api/v1/alerts/history",
    "/api/v1/actions",
    "/api/v1/apps",
    "/api/v1/bulk-actions",
    "/api/v1/ledger",
    "/api/v1/policies",
    "/api/v1/checkpoints",
    "/api/v1/notifications",
    "/api/v1/rules",
    "/api/v1/server",
    "/prometheus/api/v1/query?query=streaming_query_up",
    "/prometheus/federate?match[]=up",
)


class Sender:
    """A driver that sends reports of one query and notes which were acknowledged."""

    def __init__(self, port: int, token: str, number: int):
        self._port, self._token, self._over = port, token, threading.Event()
        self.driver = Driver(app=f"app{number}")
        self.query, self._run = (
            f"00000000-0000-4000-8000-{number:012d}",
            f"00000000-0000-4000-9000-{number:012d}",
        )
        self.acknowledged: set[int] = set()
        self.refused: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(READY_SECONDS)

    def _send_all(self) -> None:
        lines, batch = [self.driver.started(self.query, self._run, at=time.time())], 0
        while not self._over.is_set() or lines:
            if not lines:
                for number in range(batch, batch + EVENTS):
                    data = report(self.query, self._run, number, time.time())
                    lines.append(self.driver.line("progress", data, time.time()))
                batch += EVENTS
            if self._accepted(gzip.compress(b"\n".join(lines), 1)):
                self.acknowledged |= set(range(self.driver.seq - len(lines) + 1, self.driver.seq + 1))
                lines = []
            elif self._over.wait(0.1):
                return  # without an acknowledgement nothing is promised
            time.sleep(0.02)

    def _accepted(self, body: bytes) -> bool:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Encoding": "gzip"}
        headers["X-Sent-At"] = f"{time.time():.3f}"
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=40)
        try:
            connection.request("POST", "/api/v1/events", body, headers)
            answer = connection.getresponse()
            document = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.refused[type(error).__name__] += 1
            return False
        finally:
            connection.close()
        if answer.status == 200 and document["rejected"]:
            raise SystemExit(f"events were rejected: {document['rejected'][:3]}")
        if answer.status != 200:
            self.refused[str(answer.status)] += 1
        return answer.status == 200


class Prober:
    """Reads every endpoint in turn; notes slow answers, and errors without a reason."""

    def __init__(self, port: int, token: str, query: str):
        self._port, self._token, self._query = port, token, query
        self.answers: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.slowest = 0.0
        #: While set, no answer can come: the server is dead, or its network is cut.
        self.away = threading.Event()
        #: Counts such times: an answer that one of them has delayed is not judged.
        self.times_away = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(2)]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Read nothing until `away` is cleared."""
        self.times_away += 1
        self.away.set()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, first: int) -> None:
        while not self._over.is_set():
            for path in ENDPOINTS[first::2]:
                if not self.away.is_set():
                    self._read(path)
                if self._over.wait(0.05):
                    return

    def _read(self, path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        began, before = time.monotonic(), self.times_away
        try:
            headers = {"Authorization": f"Bearer {self._token}"}
            connection.request("GET", path.format(query=self._query), headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            if self.times_away == before and time.monotonic() - began > ANSWER_SECONDS:
                self.bad[f"{path}: {type(error).__name__}"] += 1
            return
        finally:
            connection.close()
        took = time.monotonic() - began
        self.answers[str(answer.status)] += 1
        if self.times_away != before:
            return
        self.slowest = max(self.slowest, took)
        if took > ANSWER_SECONDS:
            self.bad[f"{path}: {answer.status} after {took:.0f} s"] += 1
        if answer.status >= 500 and not (path == "/readyz" or b'"message"' in text or b'"error"' in text):
            self.bad[f"{path}: {answer.status} without a reason"] += 1


class Plane:
    """A server that can be killed and started again on its port."""

    def __init__(self, folder: Path, options: list[str], clock: bool = False):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.folder, self.data_dir, self.shift = folder, folder / "data", folder / "shift"
        serve = ["-m", "controlplane", "serve", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        timed = ["-c", CLOCK, str(self.port), str(self.data_dir), str(self.shift)]
        self.command = [sys.executable, *(timed if clock else [*serve, *options])]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.await_ready()

    def await_ready(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise SystemExit(f"the server is not ready:\n{(self.folder / 'log').read_text()[-3000:]}")

    def kill(self, with_signal: int = signal.SIGKILL) -> None:
        assert self.process
        self.process.send_signal(with_signal)
        self.process.wait(60)

    def token(self, role: str) -> str:
        return (self.data_dir / f"{role}.token").read_text().strip()
