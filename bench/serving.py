"""Server process for the benchmarks, started as users start it, on a free port.

Not a benchmark: `bench/ingest.py` and `bench/polls.py` import it.
"""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 30.0


@contextlib.contextmanager
def served(data_dir: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The server's address and process; ended in good order where the caller has not done so.

    `options`: further options of `controlplane serve`.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "controlplane",
        "serve",
        "--port",
        str(port),
        "--data-dir",
        str(data_dir),
        *options,
    ]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_ready(url, process)
            yield url, process
        finally:
            stop_seconds(process)


def _await_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    parts, until = urlsplit(url), time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def stop_seconds(process: subprocess.Popen[bytes]) -> float:
    """Ask it to end, as Ctrl-C does; how long that took. One that does not obey is killed."""
    began = time.perf_counter()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
