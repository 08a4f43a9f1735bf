"""Cost of a flood of events in the driver: memory, loss and CPU of the agent.

A process of its own plays a driver of 1 000 queries: their progress reports (3 KB each, now and then one
of 30 KB) go to the agent's inbox as Spark's callbacks would put them, for a minute; then it idles for a
minute. The server is a real one. `--quick` floods and idles for 10 seconds each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.serving import served  # noqa: E402
from listeners.agent import AgentThreads, Identity  # noqa: E402
from listeners.delivery.inbox import Inbox  # noqa: E402
from listeners.delivery.transport import HttpTransport  # noqa: E402
from listeners.protocol import wire  # noqa: E402
from tests.drivers import report  # noqa: E402

QUERIES = 1_000
EVENTS_PER_SECOND = 150
LARGE_EVERY = 100
DRAIN_SECONDS = 120.0


def resident_mb() -> float:
    """Memory of this process that is in RAM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def thread_cpu_seconds(name: str) -> float:
    """CPU of all threads of this process whose name begins so, as the kernel's scheduler counts it."""
    nanoseconds = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end while we look
            if (task / "comm").read_text().startswith(name):
                nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


class Reports:
    """Progress reports as text: 3 KB, every hundredth 30 KB."""

    def __init__(self) -> None:
        self._ids = [(str(uuid.uuid4()), str(uuid.uuid4())) for _ in range(QUERIES)]
        self._operator = json.dumps(report("", "", 0)["stateOperators"][0])

    def text(self, number: int) -> str:
        query_id, run_id = self._ids[number % QUERIES]
        metrics = 1_000 if number % LARGE_EVERY == 0 else 90
        figures = {f"customMetric{i:04d}Total": i * number for i in range(metrics)}
        return json.dumps(report(query_id, run_id, number // QUERIES, time.time(), observedMetrics=figures))


def flood(inbox: Inbox, reports: Reports, seconds: float) -> tuple[int, float, float]:
    """(events sent, their bytes, highest memory in MB)."""
    count, size, peak, began = 0, 0, 0.0, time.monotonic()
    while (past := time.monotonic() - began) < seconds:
        while count < past * EVENTS_PER_SECOND:
            text = reports.text(count)
            inbox.put("progress", text)
            count, size = count + 1, size + len(text)
        peak = max(peak, resident_mb())
        time.sleep(0.02)
    return count, size, peak


def drive(url: str, token: str, spool: Path, seconds: float) -> dict[str, Any]:
    """Figures of one driver, measured by itself."""
    inbox, reports = Inbox(), Reports()
    agent = AgentThreads(
        Identity(wire.App("flood"), {}),
        inbox,
        HttpTransport(url, token),
        spool,
        {"app": "flood"},
        lambda command: wire.CommandResult("failed"),
    )
    for number in range(3_000):  # what making the reports costs is not the agent's
        reports.text(number)
    before = resident_mb()
    name_threads(agent)
    agent.start()
    cpu = thread_cpu_seconds("cp-")
    count, size, peak = flood(inbox, reports, seconds)
    waited = time.monotonic()
    while agent._spool.events and time.monotonic() - waited < DRAIN_SECONDS:
        time.sleep(0.05)
    left = agent._spool.events
    drained, peak = time.monotonic() - waited, max(peak, resident_mb())
    idle = thread_cpu_seconds("cp-")
    time.sleep(seconds)
    idle_cpu = thread_cpu_seconds("cp-") - idle
    figures = {
        "events": count,
        "sent_mb": round(size / 1e6, 1),
        "baseline_mb": round(before, 1),
        "peak_over_baseline_mb": round(peak - before, 1),
        "dropped": sum(agent.losses().values()),
        "drained_seconds": round(drained, 2),
        "undelivered": left,
        "agent_cpu_ms_per_event": round((idle - cpu) / count * 1000, 3),
        "agent_cpu_flooded_percent": round((idle - cpu) / (seconds + drained) * 100, 2),
        "agent_cpu_idle_percent": round(idle_cpu / seconds * 100, 3),
    }
    agent.stop(5.0)
    return figures


def name_threads(agent: AgentThreads) -> None:
    """The kernel knows threads by names of their own, which Python gives only from 3.14."""
    import ctypes

    libc = ctypes.CDLL(None)
    safely = agent._run_thread

    def named(name: str, run: Any) -> None:
        libc.prctl(15, b"cp-" + name.encode()[:11], 0, 0, 0)
        safely(name, run)

    agent._run_thread = named  # type: ignore[method-assign]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--drive", nargs=3, metavar=("URL", "TOKEN", "SPOOL"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    seconds = 10.0 if chosen.quick else 60.0
    if chosen.drive:
        url, token, spool = chosen.drive
        print(json.dumps(drive(url, token, Path(spool), seconds)))
        return
    with tempfile.TemporaryDirectory() as directory, served(Path(directory) / "data") as (url, _):
        token = (Path(directory) / "data" / "agent.token").read_text().strip()
        figures = json.loads(run_driver(url, token, directory, chosen.quick))
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    ratios = {"memory_over_bar": round(figures["peak_over_baseline_mb"] / 50, 3)}
    print(json.dumps({"bench": "flood", "machine": machine, "figures": figures, "ratios": ratios}))


def run_driver(url: str, token: str, directory: str, quick: bool) -> str:
    command = [sys.executable, __file__, "--drive", url, token, str(Path(directory) / "spool")]
    done = subprocess.run(
        command + ["--quick"] * quick, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    main()
