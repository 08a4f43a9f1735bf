"""Delay of an app's acknowledgements while another app floods the server, each kind of flood in turn.

The server is a real one. One app posts a few events five times a second. The other, a process of its own, sends without a
pause and ignores refusals: reports of known queries in large bodies, new queries with labels, single events on many
connections, lines that are rejected, and bodies that decompress to many times their size. Quiet and flooded phases
alternate, so that other load of the machine affects both. The ratios are flooded over quiet, of the median and of the
90th percentile; the limits of the server are those of its defaults.

    python bench/neighbours.py [--flood KIND …] [--rounds N] [--seconds S] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fleet import cpu_seconds  # noqa: E402
from bench.serving import percentile, served  # noqa: E402
from tests.drivers import Driver  # noqa: E402

EVERY_SECONDS, EVENTS = 0.2, 5
#: Connections of a flood: of bodies, and of single events.
CONNECTIONS, MANY_CONNECTIONS = 8, 32
BODIES, LINES = 6, 2_000
#: Between the phases, until the server has worked off what it took.
REST_SECONDS = 1.0


class App:
    """A driver of an app with one query, and its connection."""

    def __init__(self, url: str, token: str, name: str):
        parts = urlsplit(url)
        self._address, self._token = (parts.hostname or "", parts.port), token
        self._connection = http.client.HTTPConnection(*self._address, timeout=120)
        self.driver, self._batch = Driver(app=name), 0
        self._query, self._run = str(uuid.uuid4()), str(uuid.uuid4())

    def started(self) -> bytes:
        return self.driver.started(self._query, self._run, at=time.time())

    def reports(self, count: int) -> list[bytes]:
        """The next reports of its query."""
        self._batch += count
        first = self._batch - count
        return [self.driver.progress(self._query, self._run, first + n, time.time()) for n in range(count)]

    def post(self, body: bytes) -> int:
        """The status of an answer; 0 without one."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Encoding": "gzip"}
        try:
            self._connection.request("POST", "/api/v1/events", body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection = http.client.HTTPConnection(*self._address, timeout=120)
            return 0
        return answer.status


# -- floods ---------------------------------------------------------------------------------------


def reports_flood(app: App) -> list[bytes]:
    """Large bodies of reports of a known query."""
    app.post(gzip.compress(app.started()))
    return [gzip.compress(b"\n".join(app.reports(LINES)), 1) for _ in range(BODIES)]


def queries_flood(app: App) -> list[bytes]:
    """Bodies of new queries with labels."""
    app.driver.labels = {f"label{n}": f"value{n}" for n in range(10)}

    def started() -> bytes:
        query, run = str(uuid.uuid4()), str(uuid.uuid4())
        return app.driver.started(query, run, f"query-{query}", time.time())

    return [gzip.compress(b"\n".join(started() for _ in range(LINES)), 1) for _ in range(BODIES)]


def events_flood(app: App) -> list[bytes]:
    """Single events."""
    app.post(gzip.compress(app.started()))
    return [gzip.compress(line, 1) for line in app.reports(LINES)]


def rejected_flood(app: App) -> list[bytes]:
    """Bodies of lines that are no events."""
    return [gzip.compress(b'{"not": "an event"}\n' * 50_000, 1)]


def large_flood(app: App) -> list[bytes]:
    """A few long lines that decompress to many times their size."""
    line = app.driver.line("progress", {"id": str(uuid.uuid4()), "filler": "x y " * 200_000}, time.time())
    return [gzip.compress(b"\n".join([line] * 40), 1)]


FLOODS = {
    "reports": (reports_flood, CONNECTIONS),
    "queries": (queries_flood, CONNECTIONS),
    "events": (events_flood, MANY_CONNECTIONS),
    "rejected": (rejected_flood, CONNECTIONS),
    "large": (large_flood, CONNECTIONS),
}


def flood(url: str, token: str, kind: str) -> None:
    """Prepare the bodies of each connection; then a line of standard input starts the flood, and the next ends it."""
    bodies_of, connections = FLOODS[kind]
    apps = [App(url, token, "flood") for _ in range(connections)]
    bodies = [bodies_of(app) for app in apps]
    print("ready", flush=True)
    while sys.stdin.readline():
        over, statuses = threading.Event(), []
        threads = [
            threading.Thread(target=send, args=(app, own, over, statuses))
            for app, own in zip(apps, bodies, strict=True)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.readline()
        over.set()
        for thread in threads:
            thread.join()
        print(json.dumps({str(status): statuses.count(status) for status in set(statuses)}), flush=True)


def send(app: App, bodies: list[bytes], over: threading.Event, statuses: list[int]) -> None:
    while not over.is_set():
        for body in bodies:
            statuses.append(app.post(body))
            if over.is_set():
                return


# -- measurement ----------------------------------------------------------------------------------


def acknowledgements(app: App, seconds: float) -> list[float]:
    """Seconds that each acknowledgement took."""
    found, end = [], time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        body = gzip.compress(b"\n".join(app.reports(EVENTS)), 1)
        sent = time.perf_counter()
        if app.post(body) != 200:
            raise SystemExit("events of the other app were refused")
        found.append(time.perf_counter() - sent)
        time.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
    return found


@contextlib.contextmanager
def flooder(url: str, token: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, "--drive", url, token, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        yield process
        process.stdin.close()


def measure(kind: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Figures of one kind of flood."""
    quiet: list[float] = []
    flooded: list[float] = []
    answers: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name, served(Path(name) / "data") as (url, server):
        token = (Path(name) / "data" / "agent.token").read_text().strip()
        app = App(url, token, "calm")
        app.post(gzip.compress(app.started()))
        with flooder(url, token, kind) as process:
            assert process.stdin and process.stdout
            acknowledgements(app, seconds / 2)
            used = 0.0
            for _ in range(rounds):
                quiet += acknowledgements(app, seconds)
                process.stdin.write("\n")
                process.stdin.flush()
                before = cpu_seconds(server.pid)
                flooded += acknowledgements(app, seconds)
                used += cpu_seconds(server.pid) - before
                process.stdin.write("\n")
                process.stdin.flush()
                for status, count in json.loads(process.stdout.readline()).items():
                    answers[status] = answers.get(status, 0) + count
                time.sleep(REST_SECONDS)
    return {
        "quiet_p50_seconds": percentile(quiet, 0.5),
        "quiet_p90_seconds": percentile(quiet, 0.9),
        "flooded_p50_seconds": percentile(flooded, 0.5),
        "flooded_p90_seconds": percentile(flooded, 0.9),
        "flooded_max_seconds": max(flooded),
        "server_cpu_cores_flooded": used / (rounds * seconds),
        "answers": answers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flood", nargs="+", choices=FLOODS, default=list(FLOODS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase")
    parser.add_argument("--quick", action="store_true", help="one round of 4 s, reports only")
    parser.add_argument("--drive", nargs=3, metavar=("URL", "TOKEN", "KIND"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive:
        flood(*chosen.drive)
        return
    rounds, seconds = (1, 4.0) if chosen.quick else (chosen.rounds, chosen.seconds)
    figures = {
        kind: measure(kind, rounds, seconds) for kind in (["reports"] if chosen.quick else chosen.flood)
    }
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    ratios = {
        f"{kind}_{share}": round(found[f"flooded_{share}_seconds"] / found[f"quiet_{share}_seconds"], 2)
        for kind, found in figures.items()
        for share in ("p50", "p90")
    }
    print(json.dumps({"bench": "neighbours", "machine": machine, "figures": figures, "ratios": ratios}))


if __name__ == "__main__":
    main()
