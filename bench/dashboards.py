"""Answer time of the dashboards' queries over HTTP: this server beside Prometheus with the same samples.

The server runs as users start it and a fleet reports to it. After some minutes the samples of all metrics on the Grafana
dashboards of `deploy/grafana` are read from it and written to Prometheus, with a marker where a series ends. Then each
range query of the dashboards (all applications; one query) is asked of both in turn, while the fleet goes on reporting.
Results must be equal: the same series, with the same values at the same times; of `topk`, which may choose any of several
equal series, the same values. Rates near the start of a counter are more in Prometheus 2 than in Prometheus 3, whose rule is
ours: `differ_by_version` lists them apart. The clock includes HTTP and JSON. Without Prometheus there are figures of this
server alone.

    python bench/dashboards.py [--quick] [--queries N] [--seconds S] [--tries T]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cramjam

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fleet import DRIVER_PROCESSES, DRIVERS, cpu_seconds  # noqa: E402
from bench.serving import percentile, served  # noqa: E402
from bench.simulated_drivers import QUERIES_PER_DRIVER, start_seconds  # noqa: E402
from controlplane.metrics.remote_write.protocol import (  # noqa: E402
    HEADERS,
    STALE_MARKER,
    WriteRequest,
    encoded_labels,
)
from tests.unit.alerts.promql.peer import peer_over  # noqa: E402

STEP, SERIES_A_REQUEST = 15.0, 2000
#: Prometheus 2 counts a sample on the left edge of a range, Prometheus 3 does not: no question has a sample there.
BESIDE_THE_GRID = 7.0
#: Time for the last samples of the range to be taken.
SETTLED_SECONDS = 30.0
#: Reports before the range that is asked for: as on a server that has run for longer, the look-back meets samples.
UNREAD_SECONDS = 360.0
#: What a dashboard takes over all applications; the others are of one query.
FLEET_DASHBOARDS = ("fleet", "server")
#: Metrics of the server itself: no two reads of these agree, and Prometheus would scrape them.
_METRIC = re.compile(r"\b(?:spark_streaming|controlplane)_\w+")
Series = dict[frozenset[tuple[str, str]], list[tuple[float, float]]]


def expressions(app: str, query: str) -> dict[str, str]:
    """The expressions of all panels by dashboard and number."""
    found = {}
    for file in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        everything = file.stem in FLEET_DASHBOARDS
        chosen = {"$__rate_interval": "1m", "$app": ".*" if everything else app, "$query": query}
        texts = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', file.read_text())
        for number, text in enumerate(map(json.loads, texts)):
            pattern = "|".join(map(re.escape, chosen))
            found[f"{file.stem}-{number}"] = re.sub(pattern, lambda name: chosen[name[0]], text)  # noqa: B023
    return found


class Client:
    """One connection to a Prometheus API below `prefix`."""

    def __init__(self, url: str, prefix: str = "", token: str = ""):
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._prefix = prefix
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str, **parameters: Any) -> tuple[Any, float]:
        """The parsed answer, and the seconds until its last byte."""
        target = f"{self._prefix}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        began = time.perf_counter()
        self._connection.request("GET", target, headers=self._headers)
        body = self._connection.getresponse().read()
        took = time.perf_counter() - began
        return json.loads(body), took

    def series(self, expression: str, at: float) -> Series:
        """The samples of a range selector."""
        answer, _ = self.ask("query", query=expression, time=at)
        return points(answer) if answer["status"] == "success" else {}


def points(answer: Mapping[str, Any]) -> Series:
    """The points of a matrix by labels."""
    return {
        frozenset(series["metric"].items()): [(float(at), float(value)) for at, value in series["values"]]
        for series in answer.get("data", {}).get("result", ())
    }


def ranked(found: Series) -> dict[float, list[float]]:
    """The values of all series by time, in order."""
    values: dict[float, list[float]] = {}
    for points_of_one in found.values():
        for at, value in points_of_one:
            values.setdefault(at, []).append(value)
    return {at: sorted(chosen) for at, chosen in values.items()}


def is_of_version(text: str, ours: Series, theirs: Series) -> bool:
    """Whether values differ by what Prometheus 2 adds before the first sample of a counter: 0.6 of a step at most."""
    if not re.search(r"\b(rate|increase)\(", text) or not _same_places(ours, theirs):
        return False
    pairs = ((own[1], other[1]) for key in ours for own, other in zip(ours[key], theirs[key], strict=True))
    return all(own * (1 - 1e-9) <= other <= 1.6 * own for own, other in pairs)


def _same_places(ours: Series, theirs: Series) -> bool:
    return {key: [at for at, _ in found] for key, found in ours.items()} == {
        key: [at for at, _ in found] for key, found in theirs.items()
    }


def difference(text: str, ours: Series, theirs: Series) -> str:
    """What is not equal; empty if nothing is. Sums may be added in another order."""
    if text.startswith("topk(") and ranked(ours) == ranked(theirs):
        return ""
    if ours.keys() != theirs.keys():
        return f"{len(ours.keys() - theirs.keys())} series more, {len(theirs.keys() - ours.keys())} fewer"
    for labels, given in ours.items():
        if [at for at, _ in given] != [at for at, _ in theirs[labels]]:
            return f"times of {dict(labels)}: {len(given)} and {len(theirs[labels])} points"
        for (at, value), (_, other) in zip(given, theirs[labels], strict=True):
            if not math.isclose(value, other, rel_tol=1e-9) and not (math.isnan(value) and math.isnan(other)):
                return f"{dict(labels)} at {at}: {value} and {other}"
    return ""


@contextlib.contextmanager
def reporting(url: str, token: str, queries: int, seconds: float) -> Iterator[None]:
    """A fleet that reports for so long, or until the end of the block."""
    drivers = max(1, queries // QUERIES_PER_DRIVER)
    share = -(-drivers // DRIVER_PROCESSES)
    processes = [
        subprocess.Popen(
            [sys.executable, str(DRIVERS), url, token]
            + [str(value) for value in (first, min(share, drivers - first), queries, seconds)],
            stdout=subprocess.DEVNULL,
        )
        for first in range(0, drivers, share)
    ]
    try:
        time.sleep(start_seconds(queries))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(60)


def selectors(asked: Mapping[str, str], app: str, query: str) -> set[str]:
    """What the expressions read: of all queries on the dashboards of the fleet, else of one, as a replay of all is refused."""
    of_fleet, of_query = set[str](), set[str]()
    for name, text in asked.items():
        (of_fleet if name.startswith(FLEET_DASHBOARDS) else of_query).update(_METRIC.findall(text))
    own = f'{{app="{app}", query="{query}"}}'
    by_query = {name for name in of_query - of_fleet if asked_by_query(name, asked)}
    return of_fleet | (of_query - by_query) | {name + own for name in by_query}


def asked_by_query(name: str, asked: Mapping[str, str]) -> bool:
    """Whether a metric is read with the label `query` in all expressions."""
    return all(
        f"{name}{{" not in text or re.search(rf"{name}\{{[^}}]*query=", text)
        for text in asked.values()
        if name in text
    )


def copy(client: Client, url: str, chosen: set[str], at: float, seconds: float) -> int:
    """Write the samples of these selectors to Prometheus; how many series."""
    held: list[tuple[frozenset[tuple[str, str]], list[tuple[float, float]]]] = []
    for selector in sorted(chosen):
        held += client.series(f"{selector}[{seconds:.0f}s]", at).items()
    for first in range(0, len(held), SERIES_A_REQUEST):
        request = WriteRequest()
        for labels, samples in held[first : first + SERIES_A_REQUEST]:
            series = request.timeseries.add()
            series.MergeFromString(encoded_labels(dict(labels)))
            for when, value in with_ends(samples, at):
                series.samples.add(value=value, timestamp=round(when * 1000))
        body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
        with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/write", body, HEADERS), timeout=60):
            pass
    return len(held)


def with_ends(samples: list[tuple[float, float]], end: float) -> Iterator[tuple[float, float]]:
    """The samples up to `end`, with a marker in the slot after the last one before each gap."""
    for number, (at, value) in enumerate(samples):
        yield at, value
        later = samples[number + 1][0] if number + 1 < len(samples) else end
        if later > at + STEP + 1:
            yield at + STEP, STALE_MARKER


def measure(queries: int, seconds: float, tries: int) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url, server = stack.enter_context(served(folder / "data"))
        tokens = {
            role: (folder / "data" / f"{role}.token").read_text().strip() for role in ("agent", "admin")
        }
        client = Client(url, "/prometheus", tokens["admin"])
        stack.enter_context(reporting(url, tokens["agent"], queries, seconds + 3600))
        time.sleep(seconds)
        end = math.floor((time.time() - SETTLED_SECONDS) / STEP) * STEP + BESIDE_THE_GRID
        start = end - math.floor(max(60.0, seconds - UNREAD_SECONDS) / STEP) * STEP
        chosen = "topk(1, spark_streaming_state_rows or spark_streaming_batch_duration_seconds)"
        (label,) = client.ask("query", query=chosen, time=end)[0]["data"]["result"]
        asked = expressions(label["metric"]["app"], label["metric"]["query"])
        figures, times = Figures(), {"start": start, "end": end, "step": STEP}
        peer = None
        if shutil.which("prometheus"):
            (folder / "peer").mkdir()
            options = ["--web.enable-remote-write-receiver"]
            peer_server = stack.enter_context(peer_over([], folder / "peer", options=options))
            read = selectors(asked, label["metric"]["app"], label["metric"]["query"])
            figures.series = copy(client, peer_server.url, read, end, end - start + 3600)
            peer = Client(peer_server.url)
        before = cpu_seconds(server.pid)
        for name, text in asked.items():
            figures.take(name, text, client, peer, times, tries)
        figures.server_cpu_seconds = cpu_seconds(server.pid) - before
    return figures.summary(queries)


class Figures:
    """Seconds of both, and what differs."""

    def __init__(self) -> None:
        self.ours: dict[str, list[float]] = {}
        self.theirs: dict[str, list[float]] = {}
        self.different: dict[str, str] = {}
        self.differ_by_version: dict[str, str] = {}
        self.empty: list[str] = []
        self.series, self.server_cpu_seconds = 0, 0.0

    def take(
        self,
        name: str,
        text: str,
        client: Client,
        peer: Client | None,
        times: Mapping[str, float],
        tries: int,
    ) -> None:
        for _ in range(tries):
            answer, took = client.ask("query_range", query=text, **times)
            self.ours.setdefault(name, []).append(took)
            if peer is not None:
                other, took = peer.ask("query_range", query=text, **times)
                self.theirs.setdefault(name, []).append(took)
        if answer["status"] != "success":
            self.different[name] = f"{text}: {answer.get('error')}"
            return
        if not points(answer):
            self.empty.append(name)
        if peer is not None and (found := difference(text, points(answer), points(other))):
            by_version = is_of_version(text, points(answer), points(other))
            (self.differ_by_version if by_version else self.different)[name] = f"{text}: {found}"

    def summary(self, queries: int) -> dict[str, Any]:
        every = {"ours": self.ours, "peer": self.theirs}
        spent = {
            whose: [s for found in held.values() for s in found] for whose, held in every.items() if held
        }
        slowest = sorted(self.ours, key=lambda name: percentile(self.ours[name], 0.5), reverse=True)[:5]
        return {
            "queries": queries,
            "expressions": len(self.ours),
            "empty": len(self.empty),
            "compared_series": self.series,
            **{
                f"{whose}_p{share * 100:.0f}_ms": 1000 * percentile(found, share)
                for whose, found in spent.items()
                for share in (0.5, 0.95)
            },
            "server_cpu_seconds": self.server_cpu_seconds,
            "slowest_ms": {name: round(1000 * percentile(self.ours[name], 0.5), 1) for name in slowest},
            "different": self.different,
            "differ_by_version": self.differ_by_version,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 queries for a minute and a half, one try")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600.0, help="reports before the questions")
    parser.add_argument("--tries", type=int, default=5)
    chosen = parser.parse_args()
    figures = measure(*((100, 90.0, 1) if chosen.quick else (chosen.queries, chosen.seconds, chosen.tries)))
    ratios = {}
    if "peer_p95_ms" in figures:
        ratios = {"peer_over_ours_p95": round(figures["peer_p95_ms"] / figures["ours_p95_ms"], 3)}
    rounded = {
        name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()
    }
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "dashboards", "machine": machine, "figures": rounded, "ratios": ratios}))


if __name__ == "__main__":
    main()
