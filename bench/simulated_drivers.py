"""Drivers of a simulated fleet, as one process: healthy queries that report every 10 s, some of which fail.

Not a benchmark: `bench/fleet.py` starts it. Prints what the drivers did within the measured time as JSON.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import math
import random
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from listeners.agent import LINGER_SECONDS, PACE_SECONDS  # noqa: E402
from listeners.protocol import wire  # noqa: E402
from tests.drivers import Driver, real_reports  # noqa: E402

QUERIES_PER_DRIVER = 50
INTERVAL_SECONDS = 10.0
#: Time between two failures in the fleet, and how long a failed query is down.
FAILURE_SECONDS, DOWN_SECONDS = 2.0, 15.0
#: Queries that start in a second before the measurement, and in a storm of new ones.
STARTS_PER_SECOND, STORM_STARTS_PER_SECOND = 250, 50
STORM_APPS = 4
#: Marks of the values that differ from report to report, in a line encoded once.
SEQ, BATCH, TIMESTAMP, AT = 918273645, 918273646, "@timestamp@", 1918273647.0


def start_seconds(queries: int) -> float:
    """Seconds from the start of the drivers to the begin of the measurement."""
    return queries / STARTS_PER_SECOND + 2 * INTERVAL_SECONDS


class SimulatedQuery:
    """A query and its reports as bytes."""

    def __init__(self, driver: Driver, name: str, kind: dict[str, Any]):
        self.driver, self.name, self.id = driver, name, str(uuid.uuid4())
        self._kind, self._batch, self._run = kind, 0, ""
        self._template: list[str] = []

    def start(self) -> bytes:
        """The event of a new run."""
        self._run = str(uuid.uuid4())
        report = self._kind | {"id": self.id, "runId": self._run, "name": self.name}
        report |= {"batchId": BATCH, "timestamp": TIMESTAMP}
        text = self.driver.line("progress", report, AT).decode()
        self.driver.seq -= 1
        text = text.replace(f'"seq":{self.driver.seq + 1},', f'"seq":{SEQ},', 1)
        for mark in (str(SEQ), str(BATCH), TIMESTAMP, wire.rfc3339(AT)):
            text = text.replace(mark, "\0" + mark + "\0")
        self._template = text.split("\0")
        return self.driver.line(
            "started", {"id": self.id, "runId": self._run, "name": self.name}, time.time()
        )

    def progress(self) -> bytes:
        """The next report, as of now."""
        now, self._batch = time.time(), self._batch + 1
        self.driver.seq += 1
        values = {str(SEQ): str(self.driver.seq), str(BATCH): str(self._batch)}
        values |= {TIMESTAMP: wire.rfc3339(now - 0.5), wire.rfc3339(AT): wire.rfc3339(now)}
        return "".join(values.get(part, part) for part in self._template).encode()

    def fail(self) -> bytes:
        """The event of a failure."""
        data = {"id": self.id, "runId": self._run, "exception": "java.io.IOException: disk quota exceeded"}
        return self.driver.line("terminated", data, time.time())

    def status(self) -> dict[str, Any]:
        """The query's entry in a status event."""
        waiting = {"message": "Waiting for next trigger", "isDataAvailable": True, "isTriggerActive": False}
        return {"id": self.id, "runId": self._run, "name": self.name, **waiting}


@dataclass
class Account:
    """What the drivers of a process did within the measured time."""

    wanted: int = 0
    stored: int = 0
    refused: int = 0
    #: When each request began, Unix seconds, and the seconds until it was acknowledged.
    acks: list[tuple[float, float]] = field(default_factory=list)
    failed_at: dict[str, float] = field(default_factory=dict)


class SimulatedDriver:
    """A driver: one thread sends events in the order of their times, another holds the long poll."""

    def __init__(
        self, url: str, token: str, number: int, measured: tuple[float, float], account: Account, app: str
    ):
        parts = urlsplit(url)
        self._address, self._token = (parts.hostname or "", parts.port), token
        self._number, (self._begin, self._end), self._account = number, measured, account
        self._driver = Driver(app=app, labels={"team": f"team{number % 10}"})
        kinds = real_reports()
        self.queries = [
            SimulatedQuery(self._driver, f"query{number:03d}-{n:02d}", kinds[(number + n) % len(kinds)])
            for n in range(QUERIES_PER_DRIVER)
        ]
        self._dice = random.Random(number)
        self._down: dict[str, float] = {}
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=120)

    def run(self, started_at: float) -> None:
        """Start at this time (Unix seconds), report until the end of the measurement."""
        threading.Thread(target=self._poll, daemon=True).start()
        time.sleep(max(0.0, started_at - time.time()))
        self._post([query.start() for query in self.queries], 0)
        began = time.time()
        due = {query: began + self._dice.uniform(0, INTERVAL_SECONDS) for query in self.queries}
        failing = self._begin + self._dice.uniform(0, 1) * self._failure_period
        heartbeat_at = began
        while (now := time.time()) < self._end:
            lines = self._reports(due, now)
            batches = len(lines)
            if now >= heartbeat_at:
                lines += self._heartbeat()
                heartbeat_at += INTERVAL_SECONDS
            if now >= failing:
                lines.append(self._fail(self._dice.choice(self.queries)))
                failing += self._failure_period
            if lines:
                self._post(lines, batches)
            # As the agent does: reports at most once in PACE_SECONDS, a start or an end at once.
            next_at = max(min(*due.values(), heartbeat_at) + LINGER_SECONDS, now + PACE_SECONDS * bool(lines))
            urgent = (failing, *(due[query] for query in self.queries if query.id in self._down))
            time.sleep(max(0.0, min(next_at, min(urgent) + LINGER_SECONDS, self._end) - time.time()))
        self._account.wanted += sum(_missed(at, self._end) for at in due.values())

    def _reports(self, due: dict[SimulatedQuery, float], now: float) -> list[bytes]:
        """The events of the queries whose turn it is; `due` is moved on."""
        lines = []
        for query in [query for query, at in due.items() if at <= now]:
            due[query] += INTERVAL_SECONDS
            down_until = self._down.get(query.id, 0.0)
            if down_until > now:
                due[query] = down_until
            elif self._down.pop(query.id, None):
                lines.append(query.start())
            else:
                lines.append(query.progress())
        return lines

    _failure_period = FAILURE_SECONDS

    def fail_every(self, seconds: float) -> None:
        """Fail one query of this driver in so many seconds."""
        self._failure_period = seconds

    def _heartbeat(self) -> list[bytes]:
        status = {"queries": [query.status() for query in self.queries], "listedAt": time.time()}
        figures = {"executors": 2, "driver": {"heapUsed": 5e8, "heapMax": 1e9}, "actions": "all"}
        return [
            self._driver.line("status", status, time.time()),
            self._driver.line("heartbeat", figures, time.time()),
        ]

    def _fail(self, query: SimulatedQuery) -> bytes:
        self._account.failed_at[query.id] = time.time()
        self._down[query.id] = time.time() + DOWN_SECONDS
        return query.fail()

    def _post(self, lines: list[bytes], batches: int) -> None:
        body, first = gzip.compress(b"\n".join(lines), 1), time.time()
        while not self._accepted(body):
            time.sleep(1.0)
        if self._begin <= first < self._end:
            done = time.time()
            self._account.acks.append((first, done - first))
            self._account.wanted += batches
            self._account.stored += batches if done < self._end else 0

    def _accepted(self, body: bytes) -> bool:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Encoding": "gzip"}
        headers["X-Sent-At"], headers["Connection"] = f"{time.time():.3f}", "close"  # as urllib sends it
        try:
            self._connection.request("POST", "/api/v1/events", body, headers)
            answer = self._connection.getresponse()
            document = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection = self._connect()
            return False
        if answer.status == 200:
            return True
        if answer.status not in (429, 503):
            raise SystemExit(f"events were refused: {answer.status} {document[:300]!r}")
        self._account.refused += 1
        return False

    def _poll(self) -> None:
        path, connection = f"/api/v1/agents/{self._driver.agent}/commands?wait=25", self._connect()
        while time.time() < self._end:
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection = self._connect()
                time.sleep(1.0)


def _missed(at: float, until: float) -> int:
    """The reports that were due before `until` and not made, because the driver waited for the server."""
    return max(0, math.ceil((until - at) / INTERVAL_SECONDS))


def drive(
    url: str, token: str, first: int, drivers: int, all_queries: int, seconds: float, storm: bool
) -> None:
    """A process of drivers; prints its account as JSON. `storm`: of new queries, measured from the first."""
    account, now = Account(), time.time()
    begin = now + (0.0 if storm else start_seconds(all_queries))
    rate = STORM_STARTS_PER_SECOND if storm else STARTS_PER_SECOND
    threads = []
    for number in range(first, first + drivers):
        app = f"storm{number % STORM_APPS}" if storm else f"app{number:03d}"
        driver = SimulatedDriver(url, token, number, (begin, begin + seconds), account, app)
        driver.fail_every(FAILURE_SECONDS * all_queries / QUERIES_PER_DRIVER)
        started_at = now + (number - first * storm) * QUERIES_PER_DRIVER / rate
        threads.append(threading.Thread(target=driver.run, args=(started_at,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(vars(account)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("first", type=int, help="number of the first driver")
    parser.add_argument("drivers", type=int)
    parser.add_argument("all_queries", type=int, help="queries of the whole fleet")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--storm", action="store_true", help="a storm of new queries of a few apps")
    drive(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
