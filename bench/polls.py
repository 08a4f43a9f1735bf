"""Cost of thousands of held command polls: latency of POST /api/v1/events beside them.

Three processes: the server as users start it, a client that holds N polls on N real sockets and
renews each as it ends, and this one, which posts events and measures. Without polls first, then with.
`--quick` holds the same polls and measures for a shorter time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import http.client
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.serving import percentile, served, stop_seconds  # noqa: E402

WAIT = 25  # seconds a poll is held
POSTS_PER_SECOND = 20
EVENTS_PER_POST = 10
CONNECTS_AT_ONCE = 100
STORM_SECONDS = 3.0
BAR_MS = 250.0


class Holder:
    """Holds `count` polls: raw HTTP on asyncio streams, so that the client costs little of the two cores."""

    def __init__(self, host: str, port: int, token: str, count: int):
        self.host, self.port, self.token, self.count = host, port, token, count
        self.held = self.renewed = self.failed = 0
        self._gate = asyncio.Semaphore(CONNECTS_AT_ONCE)

    def _request(self) -> bytes:
        return (
            f"GET /api/v1/agents/{uuid.uuid4()}/commands?wait={WAIT} HTTP/1.1\r\nHost: {self.host}\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n"
        ).encode()

    async def hold(self) -> None:
        """One agent: poll, read the answer, poll again, until cancelled or cut off."""
        try:
            async with self._gate:
                reader, writer = await asyncio.open_connection(self.host, self.port)
            request = self._request()
            while True:
                answer = await self._poll(reader, writer, request)
                if not answer.startswith(b"HTTP/1.1 204"):
                    raise ConnectionError(answer[:60])
                self.renewed += 1
        except (OSError, asyncio.IncompleteReadError):
            self.failed += 1

    async def _poll(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> bytes:
        writer.write(request)
        self.held += 1
        try:
            return await reader.readuntil(b"\r\n\r\n")
        finally:
            self.held -= 1

    async def run(self) -> None:
        """Hold all, say so on standard output, go on until standard input ends."""
        tasks = [asyncio.create_task(self.hold()) for _ in range(self.count)]
        while self.held < self.count and not self.failed:
            await asyncio.sleep(0.05)
        self.say()
        await asyncio.to_thread(sys.stdin.readline)
        self.say()
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()

    def say(self) -> None:
        print(json.dumps({"held": self.held, "renewed": self.renewed, "failed": self.failed}), flush=True)


class Poster:
    """Posts progress events of one simulated query on one kept connection, as an agent's sender does."""

    def __init__(self, url: str, token: str):
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}
        self._agent, self._seq, self._batch = str(uuid.uuid4()), 0, 0
        self._ids = {"id": str(uuid.uuid4()), "runId": str(uuid.uuid4())}

    def _encoded_records(self) -> str:
        self._seq += 1
        self._batch += 1
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        data = {
            "durationMs": {"addBatch": 542, "commitOffsets": 63, "triggerExecution": 687},
            "numInputRows": 10,
            "batchDuration": 688,
            "sources": [
                {"description": "RateStreamV2", "startOffset": 0, "endOffset": 2, "numInputRows": 10}
            ],
            "sink": {"description": "NoopTable", "numOutputRows": 10},
            **self._ids,
            "name": "bench",
            "timestamp": stamp,
            "batchId": self._batch,
        }
        envelope = {"v": 1, "agent": self._agent, "seq": self._seq, "at": stamp, "app": {"name": "bench"}}
        return json.dumps({**envelope, "labels": {}, "type": "progress", "data": data})

    def post(self) -> float:
        """Milliseconds from the request to the whole answer."""
        body = gzip.compress("\n".join(self._encoded_records() for _ in range(EVENTS_PER_POST)).encode(), 1)
        began = time.perf_counter()
        self._connection.request("POST", "/api/v1/events", body, self._headers)
        answer = self._connection.getresponse()
        document = json.loads(answer.read())
        took = (time.perf_counter() - began) * 1000
        if answer.status != 200 or document["stored"] != EVENTS_PER_POST:
            raise SystemExit(f"events were not stored: {answer.status} {document}")
        return took

    def measure(self, seconds: float) -> list[float]:
        """Posts at a steady rate, late ones at once; each one's milliseconds."""
        times, began = [], time.perf_counter()
        for number in range(int(seconds * POSTS_PER_SECOND)):
            time.sleep(max(0.0, began + number / POSTS_PER_SECOND - time.perf_counter()))
            times.append(self.post())
        return times


def wake_times(url: str, admin: str, agent_token: str, rounds: int) -> list[float]:
    """Milliseconds from asking for an action to its command in the agent's hands, polls of others held beside."""
    from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery

    driver, query, times = SimulatedAgent(url, agent_token, app="wake"), SimulatedQuery("wake"), []
    driver.begin()
    driver.start(query)
    asker = SimulatedAgent(url, admin, app="asker").http
    for _ in range(rounds):
        got: list[float] = []

        def poll(got: list[float] = got) -> None:
            commands = driver.poll(10.0)
            got.append(time.perf_counter())
            driver.answer(commands[0], {"state": "refused", "reason": "bench"})

        thread = threading.Thread(target=poll)
        thread.start()
        time.sleep(0.1)
        began = time.perf_counter()
        asker.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop"})
        thread.join()
        times.append((got[0] - began) * 1000)
    return times


@contextlib.contextmanager
def holding(url: str, token_file: Path, count: int) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        __file__,
        "--hold",
        url,
        "--token-file",
        str(token_file),
        "--polls",
        str(count),
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def report_of(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("the client that holds the polls died")
    return dict(json.loads(line))


def ask(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return report_of(process)


def measure(count: int, alone: float, beside: float, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as (url, server):
        tokens = {role: Path(name) / f"{role}.token" for role in ("admin", "agent")}
        secrets = {role: path.read_text().strip() for role, path in tokens.items()}
        poster = Poster(url, secrets["agent"])
        poster.measure(2.0)  # the first requests compile and load
        without = poster.measure(alone)
        began = time.perf_counter()
        with holding(url, tokens["agent"], count) as holder:
            first = report_of(holder)
            connected = time.perf_counter() - began
            if first["failed"]:
                raise SystemExit(f"the polls are not held: {first}")
            storm = poster.measure(
                STORM_SECONDS
            )  # all polls came at once: the server is still taking them in
            times = poster.measure(beside)
            wakes = wake_times(url, secrets["admin"], secrets["agent"], rounds)
            last = ask(holder)
            ended = stop_seconds(server)
    return {
        "polls_held": last["held"],
        "polls_renewed": last["renewed"],
        "polls_failed": last["failed"],
        "connect_all_seconds": connected,
        "posts": len(times),
        "p50_ms": statistics.median(times),
        "p99_ms": percentile(times, 0.99),
        "max_ms": max(times),
        "storm_max_ms": max(storm),
        "without_polls_p50_ms": statistics.median(without),
        "without_polls_p99_ms": percentile(without, 0.99),
        "wake_p50_ms": statistics.median(wakes),
        "wake_max_ms": max(wakes),
        "stop_seconds": ended,
        "bar_p99_ms": BAR_MS,
    }


def raise_file_limit(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 200)), hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--polls", type=int, default=2000)
    parser.add_argument("--hold", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--token-file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    raise_file_limit(options.polls)
    if options.hold:
        parts = urlsplit(options.hold)
        holder = Holder(
            parts.hostname or "", parts.port or 0, options.token_file.read_text().strip(), options.polls
        )
        asyncio.run(holder.run())
        return
    figures = measure(options.polls, *((4.0, 26.0, 10) if options.quick else (20.0, 120.0, 40)))
    rounded = {name: round(value, 2) for name, value in figures.items()}
    ratios = {"p99_with_over_without": round(figures["p99_ms"] / figures["without_polls_p99_ms"], 2)}
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "polls", "machine": machine, "figures": rounded, "ratios": ratios}))


if __name__ == "__main__":
    main()
