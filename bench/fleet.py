"""Cost of a fleet of healthy queries that report every 10 s: delay, CPU and memory of the server as it grows.

The server runs as users start it, with the rules as shipped and a webhook with `group_wait: 0s`. Drivers of 50
queries each run in two processes of their own: each query reports a real report of Spark 4.3 every 10 s at its own
second, each driver sends status and heartbeat every 10 s and holds the long poll for commands. `/metrics` is scraped
every 10 s and the fleet read every 5 s. Every 2 s one query fails, which times the way to the webhook, and starts
again 15 s later.

    python bench/fleet.py [--queries N …] [--seconds S] [--storm N] [--growth] [--postgres] [--quick]

With several N the figures are those of the last, and `ratios` say how the CPU grows with the events. `--storm N`: in the
second half N new queries of four other apps start, 50 a second; how long the fleet's acknowledgements take before and
during. `--growth`: what the server holds at the end of the measured time over what it held after two thirds of it: memory (medians of
a tenth of the samples), file descriptors, threads. `--postgres`: on a new PostgreSQL server without fsync, whose CPU is reported beside.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.serving import percentile, served  # noqa: E402
from bench.simulated_drivers import QUERIES_PER_DRIVER, start_seconds  # noqa: E402
from tests.stores import postgres_database, postgres_server  # noqa: E402

DRIVERS = ROOT / "bench" / "simulated_drivers.py"
DRIVER_PROCESSES = 2
SCRAPE_SECONDS, READ_SECONDS = 10.0, 5.0
#: Time for the last notifications after the last failure.
LAST_NOTIFICATIONS_SECONDS = 30.0
NOTIFY = """
route: {{receiver: bench, group_by: [alertname, query_id], group_wait: 0s}}
receivers:
  - name: bench
    webhook_configs: [{{url: "{url}"}}]
"""


@contextlib.contextmanager
def receiver(notified_at: dict[str, float]) -> Iterator[str]:
    """The URL of a webhook that notes when a failure of each query was first notified."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for alert in document["alerts"]:
                if alert["labels"].get("alertname") == "QueryFailed":
                    notified_at.setdefault(alert["labels"]["query_id"], time.time())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Reader:
    """Reads one path again and again; seconds and bytes of each answer."""

    def __init__(self, url: str, token: str, path: str, every: float):
        parts = urlsplit(url)
        self._address, self._token, self._path, self._every = (parts.hostname, parts.port), token, path, every
        self.seconds: list[float] = []
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._over.wait(self._every):
            began = time.perf_counter()
            connection = http.client.HTTPConnection(self._address[0] or "", self._address[1], timeout=120)
            headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "gzip"}
            connection.request("GET", self._path, headers=headers)
            self.bytes = len(connection.getresponse().read())
            self.seconds.append(time.perf_counter() - began)
            connection.close()


class GrowthWatch:
    """Memory in MB, file descriptors and threads of a process, sampled as often as `/metrics` is read."""

    def __init__(self, pid: int):
        self._pid, self._over = pid, threading.Event()
        self.samples: list[tuple[float, int, int]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def figures(self) -> dict[str, float]:
        """The end over the end of the first two thirds, in which the samples of each query fill up. Stops the watch."""
        self._over.set()
        self._thread.join(60)
        warm = self.samples[len(self.samples) * 2 // 3 :]
        some = max(1, len(warm) // 10)
        found: dict[str, float] = {}
        for number, name in enumerate(("rss_mb", "fds", "threads")):
            begin, end = (statistics.median(s[number] for s in part) for part in (warm[:some], warm[-some:]))
            found |= {f"warm_{name}": begin, f"end_{name}": end, f"{name}_growth": end / begin}
        return found

    def _run(self) -> None:
        while not self._over.wait(SCRAPE_SECONDS / 2):
            process = Path(f"/proc/{self._pid}")
            counts = (len(list((process / name).iterdir())) for name in ("fd", "task"))
            self.samples.append((resident_mb(self._pid), *counts))  # type: ignore[arg-type]


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def postgres_cpu_seconds(pid: int) -> float:
    """CPU time so far of a PostgreSQL server, the parent `pid` of its processes, also of those that have ended."""
    used = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(stat.parent.name) == pid:
                used += sum(map(int, fields[11:15]))
            elif int(fields[1]) == pid:
                used += sum(map(int, fields[11:13]))
    return used / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process that is in RAM."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


@contextlib.contextmanager
def database(postgres: bool) -> Iterator[tuple[list[str], int | None]]:
    """Options of `serve` for the store, and the process id of a PostgreSQL server; SQLite has none."""
    if not postgres:
        yield [], None
        return
    with postgres_server() as server, postgres_database(server) as url:
        folder = Path(str(make_url(url).query["host"]))
        yield ["--database-url", url], int((folder / "data/postmaster.pid").read_text().split()[0])


def measure(
    queries: int, seconds: float, storm: int = 0, postgres: bool = False, growth: bool = False
) -> dict[str, float]:
    """The figures of one fleet."""
    notified_at: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        receiver(notified_at) as webhook,
        database(postgres) as (options, postmaster),
    ):
        notify = Path(name) / "notify.yaml"
        notify.write_text(NOTIFY.format(url=webhook))
        data_dir = Path(name) / "data"
        with served(data_dir, "--notify", str(notify), *options) as (url, server):
            secrets = {role: (data_dir / f"{role}.token").read_text().strip() for role in ("agent", "admin")}
            processes = {"server": server.pid} | ({"postgres": postmaster} if postmaster else {})
            accounts, used = _run(url, secrets, queries, seconds, processes, storm, growth)
            _await_notifications(accounts, notified_at)
    return _figures(accounts, notified_at, used, queries) | _storm_figures(accounts, seconds, storm)


@contextlib.contextmanager
def storming(url: str, token: str, first: int, storm: int, wait: float, seconds: float) -> Iterator[None]:
    """Start `storm` new queries after `wait` seconds, in drivers numbered from `first`."""
    drivers = storm // QUERIES_PER_DRIVER
    command = [
        sys.executable,
        str(DRIVERS),
        url,
        token,
        *map(str, (first, drivers, storm, seconds)),
        "--storm",
    ]
    started: list[subprocess.Popen[bytes]] = []
    timer = threading.Timer(
        wait, lambda: started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    )
    if drivers:
        timer.start()
    yield
    timer.cancel()
    for process in started:
        process.wait(300)


def _storm_figures(accounts: list[dict[str, Any]], seconds: float, storm: int) -> dict[str, float]:
    """How long acknowledgements took in the half before a storm, and while it lasted."""
    acks = sorted((at, took) for account in accounts for at, took in account["acks"])
    if not storm or not acks:
        return {}
    middle = acks[0][0] + seconds / 2
    halves = {"before": [t for at, t in acks if at < middle], "during": [t for at, t in acks if at >= middle]}
    return {
        f"ack_p{share * 100:.0f}_{name}_storm_seconds": percentile(found, share)
        for name, found in halves.items()
        for share in (0.5, 0.99)
    }


def _run(
    url: str,
    secrets: dict[str, str],
    queries: int,
    seconds: float,
    pids: dict[str, int],
    storm: int,
    growth: bool,
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    drivers = max(1, queries // QUERIES_PER_DRIVER)
    share = -(-drivers // DRIVER_PROCESSES)
    processes = []
    for first in range(0, drivers, share):
        chosen = [str(v) for v in (first, min(share, drivers - first), queries, seconds)]
        command = [sys.executable, str(DRIVERS), url, secrets["agent"], *chosen]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    time.sleep(start_seconds(queries))
    metrics = Reader(url, secrets["admin"], "/metrics", SCRAPE_SECONDS)
    fleet = Reader(url, secrets["admin"], "/api/v1/queries", READ_SECONDS)
    watch = GrowthWatch(pids["server"]) if growth else None
    cpu_of = {name: postgres_cpu_seconds if name == "postgres" else cpu_seconds for name in pids}
    before, began = {name: cpu_of[name](pid) for name, pid in pids.items()}, time.monotonic()
    with storming(url, secrets["agent"], drivers, storm, seconds / 2, seconds / 2):
        time.sleep(seconds)
        took = time.monotonic() - began
        spent = {name: cpu_of[name](pid) - before[name] for name, pid in pids.items()}
    used = {f"{name}_cpu_cores": seconds / took for name, seconds in spent.items()}
    used["server_cpu_seconds"] = spent["server"]
    used["rss_mb"] = resident_mb(pids["server"])
    used |= watch.figures() if watch else {}
    for reader, key in ((metrics, "metrics"), (fleet, "fleet")):
        reader.stop()
        used[f"{key}_p95_seconds"] = percentile(reader.seconds, 0.95) if reader.seconds else float("nan")
        used[f"{key}_mb"] = reader.bytes / 1e6
    accounts = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in processes]
    return accounts, used


def _await_notifications(accounts: list[dict[str, Any]], notified_at: dict[str, float]) -> None:
    failed, until = _failures(accounts), time.monotonic() + LAST_NOTIFICATIONS_SECONDS
    while time.monotonic() < until and not failed.keys() <= notified_at.keys():
        time.sleep(0.2)


def _failures(accounts: list[dict[str, Any]]) -> dict[str, float]:
    return {query: at for account in accounts for query, at in account["failed_at"].items()}


def _figures(
    accounts: list[dict[str, Any]], notified_at: dict[str, float], used: dict[str, float], queries: int
) -> dict[str, float]:
    failed = _failures(accounts)
    delays = [notified_at[query] - at for query, at in failed.items() if query in notified_at]
    acks = [seconds for account in accounts for _, seconds in account["acks"]]
    wanted, stored = (sum(account[key] for account in accounts) for key in ("wanted", "stored"))
    used["server_cpu_ms_per_event"] = 1000 * used["server_cpu_seconds"] / stored
    return {
        "queries": queries,
        "events_wanted": wanted,
        "stored_over_wanted": stored / wanted,
        "requests_refused": sum(account["refused"] for account in accounts),
        "ack_p50_seconds": percentile(acks, 0.5),
        "ack_p99_seconds": percentile(acks, 0.99),
        "failures": len(failed),
        "failures_not_notified": len(failed) - len(delays),
        "detection_p50_seconds": percentile(delays, 0.5) if delays else float("nan"),
        "detection_p99_seconds": percentile(delays, 0.99) if delays else float("nan"),
        **used,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, nargs="+", default=[1_000])
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="measured time, after the start of the fleet"
    )
    parser.add_argument("--storm", type=int, default=0, metavar="N", help="start so many new queries")
    parser.add_argument("--growth", action="store_true", help="what the server holds more at the end")
    parser.add_argument("--postgres", action="store_true", help="store the events in PostgreSQL")
    parser.add_argument("--quick", action="store_true", help="200 queries for 15 s")
    chosen = parser.parse_args()
    sizes = [200] if chosen.quick else chosen.queries
    seconds = 15.0 if chosen.quick else chosen.seconds
    found = [measure(queries, seconds, chosen.storm, chosen.postgres, chosen.growth) for queries in sizes]
    for figures in found:
        print(json.dumps(figures))
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    ratios = {"cpu_growth_over_event_growth": _growth(found[0], found[-1])}
    print(json.dumps({"bench": "fleet", "machine": machine, "figures": found[-1], "ratios": ratios}))


def _growth(first: dict[str, float], last: dict[str, float]) -> float:
    """How many times more CPU an event of the larger fleet costs."""
    return last["server_cpu_ms_per_event"] / first["server_cpu_ms_per_event"]


if __name__ == "__main__":
    main()
