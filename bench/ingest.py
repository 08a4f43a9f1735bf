"""Durable ingest rate of the server in progress events per second, and bytes on disk per event.

The server runs as users start it, in its own process with the embedded store. Simulated agents post
real reports of Spark 4.3 (eight kinds of queries, ids, times and figures varied) in batches of 100 and
wait for each acknowledgement. Then one agent posts at 500 events/s and each answer is timed. The floor is the
same rows, written by `sqlite3` alone into the same tables in the same groups: what durable group commits
cost on this disk without HTTP, JSON or compression. It is run with synchronous=FULL, as the server does,
and with NORMAL, which keeps no promise over a power loss.

    python bench/ingest.py [--quick]
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.serving import percentile, served  # noqa: E402
from controlplane.store.engine import default_url, open_engine, upgrade  # noqa: E402
from listeners.protocol import wire  # noqa: E402
from tests.drivers import Driver, real_reports  # noqa: E402

AGENTS = 8
QUERIES_PER_AGENT = 12
EVENTS_PER_POST = 100
STEADY_POSTS_PER_SECOND = 50
STEADY_EVENTS_PER_POST = 10


class Fleet:
    """Agents whose queries report again and again; `bodies` makes what one of them posts."""

    def __init__(self, seed: int = 20261120):
        self._dice = random.Random(seed)
        self._reports = real_reports()
        self._begin = time.time() - 3600
        self.json_bytes = 0
        self.events = 0

    def bodies(self, driver: Driver, posts: int, events: int) -> list[bytes]:
        queries = [self._query() for _ in range(QUERIES_PER_AGENT)]
        made = []
        for post in range(posts):
            lines = []
            for n in range(events):
                batch_id, place = divmod(post * events + n, QUERIES_PER_AGENT)
                lines.append(self._encoded_records(driver, queries[place], batch_id))
            made.append(gzip.compress(b"\n".join(lines), 1))
        return made

    def _query(self) -> dict[str, Any]:
        ids = {"id": self._uuid(), "runId": self._uuid()}
        return self._dice.choice(self._reports) | ids

    def _uuid(self) -> str:
        return f"{self._dice.getrandbits(32):08x}-0000-4000-8000-{self._dice.getrandbits(48):012x}"

    def _encoded_records(self, driver: Driver, query: dict[str, Any], batch_id: int) -> bytes:
        at = self._begin + batch_id * 0.01
        report = self._varied(query) | {"batchId": batch_id, "timestamp": wire.rfc3339(at)}
        self.json_bytes += len(wire.dumps(report).encode())
        self.events += 1
        return driver.line("progress", report, at + 0.001)

    def _varied(self, value: Any) -> Any:
        """Every figure above 9 changes a little, as from one batch to the next."""
        if isinstance(value, dict):
            return {name: self._varied(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._varied(inner) for inner in value]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) < 10:
            return value
        changed = value * self._dice.uniform(0.8, 1.2)
        return int(changed) if isinstance(value, int) else round(changed, 1)


class Sender:
    """One kept connection."""

    def __init__(self, url: str, token: str):
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}

    def post(self, body: bytes) -> tuple[float, int]:
        """Seconds until the acknowledgement, and how many events were new."""
        began = time.perf_counter()
        headers = self._headers | {"X-Sent-At": f"{time.time():.3f}"}
        self._connection.request("POST", "/api/v1/events", body, headers)
        answer = self._connection.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200 or document["rejected"]:
            raise SystemExit(f"events were not stored: {answer.status} {str(document)[:300]}")
        return time.perf_counter() - began, document["stored"]


def sustained(url: str, token: str, fleet: Fleet, seconds: float) -> dict[str, float]:
    """All agents post as fast as they are answered; events per second over the whole time."""
    posts = int(seconds * 8_000 / EVENTS_PER_POST / AGENTS)  # more than it can take in that time
    prepared = [fleet.bodies(Driver(app=f"app{n}"), posts, EVENTS_PER_POST) for n in range(AGENTS)]
    times: list[float] = []
    stored: list[int] = []
    until = time.perf_counter() + seconds

    def send(bodies: list[bytes]) -> None:
        sender = Sender(url, token)
        for body in bodies:
            if time.perf_counter() > until:
                return
            took, new = sender.post(body)
            times.append(took)
            stored.append(new)

    threads = [threading.Thread(target=send, args=(bodies,)) for bodies in prepared]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    return {
        "events_stored": sum(stored),
        "events_per_second": sum(stored) / took,
        "full_load_ack_p50_ms": statistics.median(times) * 1000,
        "full_load_ack_p99_ms": percentile(times, 0.99) * 1000,
    }


def steady(url: str, token: str, fleet: Fleet, seconds: float) -> dict[str, float]:
    """One agent at 500 events/s; the time to each acknowledgement."""
    posts = int(seconds * STEADY_POSTS_PER_SECOND)
    bodies, sender, times = fleet.bodies(Driver(), posts, STEADY_EVENTS_PER_POST), Sender(url, token), []
    began = time.perf_counter()
    for number, body in enumerate(bodies):
        time.sleep(max(0.0, began + number / STEADY_POSTS_PER_SECOND - time.perf_counter()))
        times.append(sender.post(body)[0] * 1000)
    return {
        "steady_events_per_second": posts * STEADY_EVENTS_PER_POST / (time.perf_counter() - began),
        "steady_ack_p50_ms": statistics.median(times),
        "steady_ack_p99_ms": percentile(times, 0.99),
    }


def floor(source: Path, directory: Path, seconds: float, synchronous: str) -> float:
    """Events per second when the stored rows are written again by sqlite3 alone, EVENTS_PER_POST a commit."""
    engine = open_engine(default_url(directory))
    upgrade(engine)
    engine.dispose()
    stored = sqlite3.connect(source)
    tables = {"events": "id", "batches": "event_id"}
    rows = {
        name: stored.execute(f"SELECT * FROM {name} ORDER BY {key} LIMIT 200000").fetchall()
        for name, key in tables.items()
    }
    target = sqlite3.connect(directory / "controlplane.db", isolation_level=None)
    target.execute(f"PRAGMA synchronous={synchronous}")
    began, done = time.perf_counter(), 0
    while done < len(rows["events"]) and time.perf_counter() - began < seconds:
        target.execute("BEGIN IMMEDIATE")
        for name, all_rows in rows.items():
            some = all_rows[done : done + EVENTS_PER_POST]
            marks = ",".join("?" * len(some[0])) if some else ""
            target.executemany(f"INSERT INTO {name} VALUES ({marks})", some)
        target.execute("COMMIT")
        done += EVENTS_PER_POST
    return done / (time.perf_counter() - began)


def stored_bytes(store: Path) -> tuple[int, int]:
    """Bytes of the file once its log is empty, and events in it."""
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    count = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    return store.stat().st_size, int(count)


def measure(seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    fleet = Fleet()
    with tempfile.TemporaryDirectory() as name:
        data_dir = Path(name) / "data"
        with served(data_dir) as (url, _):
            token = (data_dir / "agent.token").read_text().strip()
            figures = sustained(url, token, fleet, seconds) | steady(url, token, fleet, seconds)
        size, events = stored_bytes(data_dir / "controlplane.db")
        for synchronous, key in (("FULL", "floor"), ("NORMAL", "floor_normal")):
            written = floor(data_dir / "controlplane.db", Path(name) / key, seconds, synchronous)
            figures[f"{key}_events_per_second"] = written
        figures["bytes_per_event"] = size / events
        figures["json_bytes_per_event"] = fleet.json_bytes / fleet.events
    ratios = {
        "ours_over_floor_events_per_second": figures["events_per_second"]
        / figures["floor_events_per_second"],
        "floor_full_over_normal": figures["floor_events_per_second"]
        / figures["floor_normal_events_per_second"],
        "bytes_per_event_over_json": figures["bytes_per_event"] / figures["json_bytes_per_event"],
    }
    return figures, ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="under a minute")
    seconds = 5.0 if parser.parse_args().quick else 30.0
    figures, ratios = measure(seconds)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    document = {"bench": "ingest", "machine": machine, "figures": figures, "ratios": ratios}
    print(json.dumps(document, default=float, indent=None))


if __name__ == "__main__":
    main()
