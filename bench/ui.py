"""Dashboard latency with 1 000 queries (`--queries N`: more): first paint of the Fleet page, and refresh with ten viewers.

The server runs as users start it, with a fresh store, and the dashboard as `controlplane ui` starts it.
Simulated drivers report 1 000 queries over HTTP, each every ten seconds. First a real Chromium with an empty
cache opens the page, again and again: from the start of the navigation until rows are in the table. Then ten
viewers look on at a five second refresh: two in Chromium, and eight that speak Streamlit's own protocol over
its websocket, because ten browsers on two cores would measure the browsers. A refresh of these eight lasts
from the request until the last byte of the answer; of the browsers, from the request until the new "as of"
and the new rows are on the page.

    python bench/ui.py [--quick] [--queries N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import websockets  # noqa: E402
from streamlit.proto.BackMsg_pb2 import BackMsg  # noqa: E402
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg  # noqa: E402

from bench.serving import percentile, served  # noqa: E402
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, stamp  # noqa: E402
from tests.ui import browser  # noqa: E402

QUERIES_PER_AGENT = 20
EVERY = 10.0  # seconds between two reports of a query
HISTORY = 30  # reports of each query before anybody looks: as many as a trend shows
MAX_HISTORY_REPORTS = 60_000  # of all queries
BROWSERS, WIRE_VIEWERS = 2, 8
REFRESH = 5.0
CONTENTFUL = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
FIRST_PAINT_BAR_MS, REFRESH_BAR_MS = 2000.0, 1000.0

#: In the page: when rows first stood in the table, and for each refresh how long until its signs were seen.
WATCH = """
(() => {
  const seen = window.__seen = {paint: null, refreshes: []};
  let asked = null, stamp = null;
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    asked = {at: performance.now(), stamp: null, rows: null};
    seen.refreshes.push(asked);
    return send.call(this, data);
  };
  // The table is in a shadow root, which an observer of the page does not see.
  const table = () => document.querySelector('[data-testid="stBidiComponentIsolated"]')?.shadowRoot;
  let watched = null;
  const rows = () => {
    const root = table();
    if (root && root !== watched) {
      watched = root;
      new MutationObserver(() => { if (asked) asked.rows = performance.now() })
        .observe(root, {subtree: true, childList: true, characterData: true});
    }
    if (root && seen.paint === null && root.querySelectorAll('tbody tr').length > 15)
      requestAnimationFrame(() => { seen.paint = performance.now() });
    if (seen.paint === null) requestAnimationFrame(rows);
  };
  const look = () => {
    const now = performance.now();
    const words = document.body.innerText.match(/as of [\\d:]+/);
    if (words && words[0] !== stamp) { stamp = words[0]; if (asked && !asked.stamp) asked.stamp = now; }
  };
  const start = () => new MutationObserver(look).observe(
    document.body, {subtree: true, childList: true, characterData: true});
  rows();
  document.body ? start() : addEventListener('DOMContentLoaded', start);
})()
"""


class Drivers:
    """Simulated drivers with 1 000 queries that report in turn, on a thread of their own, until `close`."""

    def __init__(self, url: str, token: str, agents: int):
        self._agents = [SimulatedAgent(url, token, app=f"app-{n:02d}") for n in range(agents)]
        self._queries = [
            [SimulatedQuery(f"query-{n:02d}-{m:02d}") for m in range(QUERIES_PER_AGENT)]
            for n in range(agents)
        ]
        self._history = min(HISTORY, MAX_HISTORY_REPORTS // (agents * QUERIES_PER_AGENT))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True)

    def begin(self) -> None:
        """Every query starts and reports its recent past; one in forty has failed."""
        now = time.time()
        for agent, queries in zip(self._agents, self._queries, strict=True):
            agent.begin()
            for place, query in enumerate(queries):
                agent.start(query, interval=EVERY)
                offsets = range(self._history, 0, -1)
                agent.post(*[self._progress_line(agent, query, now - age * EVERY) for age in offsets])
                if (place + 7 * int(agent.app[-2:])) % 40 == 0:
                    agent.terminated(query, "java.lang.IllegalStateException: gone\n\tat org.apache.X")
        self._thread.start()

    def _progress_line(self, agent: SimulatedAgent, query: SimulatedQuery, at: float) -> bytes:
        type_, data = agent.progress(query, timestamp=stamp(at - 0.5), batchDuration=300 + query.batch % 70)
        return agent.line(type_, data, at)

    def _report(self) -> None:
        turn = 0
        while not self._closed.wait(EVERY / len(self._agents)):
            place = turn % len(self._agents)
            agent, queries = self._agents[place], self._queries[place]
            agent.post(*[self._progress_line(agent, query, time.time()) for query in queries if query.active])
            turn += 1

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for agent in self._agents:
            agent.close()


class WireViewer:
    """A viewer without a screen: asks for the page and for its refreshes as the browser's script does."""

    def __init__(self, address: str):
        self._url = address.replace("http", "ws", 1) + "/_stcore/stream"
        self.seconds: list[float] = []
        self.bytes: list[int] = []

    async def watch(self, until: float) -> None:
        async with websockets.connect(self._url, max_size=None, compression=None) as line:
            self._encoded_records = line
            fragment, every = (await self._run(""))[2]
            due = time.perf_counter() + every
            while due < until:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                due += every
                took, size, _ = await self._run(fragment)
                self.seconds.append(took)
                self.bytes.append(size)

    async def _run(self, fragment: str) -> tuple[float, int, tuple[str, float]]:
        """Seconds and bytes of one run, and the fragment that wants to run again with its interval."""
        ask = BackMsg()
        ask.rerun_script.fragment_id = fragment
        ask.rerun_script.is_auto_rerun = bool(fragment)
        ask.rerun_script.context_info.timezone = "UTC"
        began, size, again = time.perf_counter(), 0, (fragment, REFRESH)
        await self._encoded_records.send(ask.SerializeToString())
        while True:
            data = await self._encoded_records.recv(decode=False)
            size += len(data)
            message = ForwardMsg.FromString(data)
            if message.WhichOneof("type") == "auto_rerun":
                again = (message.auto_rerun.fragment_id, message.auto_rerun.interval)
            if message.WhichOneof("type") == "script_finished":
                return time.perf_counter() - began, size, again


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=list(browser.FLAGS))
        yield launched
        launched.close()


def open_fleet(context: Any, address: str) -> Any:
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address, wait_until="commit")
    deadline = time.monotonic() + 60
    while (
        page.evaluate("window.__seen?.paint ?? null") is None
    ):  # the page's policy forbids wait_for_function
        if time.monotonic() > deadline:
            raise SystemExit("no rows were painted within a minute")
        page.wait_for_timeout(50)
    return page


@dataclass
class Paints:
    """Milliseconds until rows stood in the table: with an empty cache, then in the same profile. `contentful`: until
    the browser painted anything of the page, with an empty cache."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    contentful: list[float] = field(default_factory=list)


def first_paints(launched: Any, address: str, times: int) -> Paints:
    found = Paints()
    for _ in range(times):
        context = launched.new_context(viewport={"width": 1440, "height": 900})
        for paints in (found.cold, found.warm):
            page = open_fleet(context, address)
            paints.append(float(page.evaluate("window.__seen.paint")))
            if paints is found.cold:
                found.contentful.append(float(page.evaluate(CONTENTFUL)))
            page.close()
        context.close()
    return found


def refreshes(launched: Any, address: str, seconds: float) -> tuple[list[Any], list[WireViewer]]:
    """All viewers look on; the refreshes that the browsers saw, and the viewers on the wire."""
    viewers = [WireViewer(address) for _ in range(WIRE_VIEWERS)]
    pages = [open_fleet(launched.new_context(), address) for _ in range(BROWSERS)]
    until = time.perf_counter() + seconds
    wire = threading.Thread(target=lambda: asyncio.run(_watch_all(viewers, until)))
    wire.start()
    pages[0].wait_for_timeout(max(0.0, until - time.perf_counter()) * 1000)
    seen = [item for page in pages for item in page.evaluate("window.__seen.refreshes.slice(1, -1)")]
    wire.join()
    answered = [item for item in seen if item["stamp"]]
    if not answered:
        raise SystemExit("the browsers saw no refresh: the machine is too busy for this measurement")
    return answered, viewers


async def _watch_all(viewers: list[WireViewer], until: float) -> None:
    async def later(number: int, viewer: WireViewer) -> None:
        await asyncio.sleep(number * REFRESH / len(viewers))  # people do not open a page in step
        await viewer.watch(until)

    await asyncio.gather(*[later(number, viewer) for number, viewer in enumerate(viewers)])


def cpu_seconds() -> float:
    """Of this machine, all processes together."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def measure(paints: int, seconds: float, agents: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        data_dir = Path(name) / "data"
        url, _ = stack.enter_context(served(data_dir))
        drivers = Drivers(url, (data_dir / "agent.token").read_text().strip(), agents)
        drivers.begin()
        stack.callback(drivers.close)
        token = (data_dir / "admin.token").read_text().strip()
        address = stack.enter_context(browser.streamlit(url, token))
        launched = stack.enter_context(chromium())
        painted = first_paints(launched, address, paints)
        began, used = time.perf_counter(), cpu_seconds()
        seen, viewers = refreshes(launched, address, seconds)
        busy = (cpu_seconds() - used) / (time.perf_counter() - began) / (os.cpu_count() or 1)
    return {
        "queries": agents * QUERIES_PER_AGENT,
        **_figures(painted, seen, viewers),
        "machine_busy_ratio": busy,
    }


def _figures(painted: Paints, seen: list[Any], viewers: list[WireViewer]) -> dict[str, float]:
    took = [1000 * second for viewer in viewers for second in viewer.seconds]
    stamps = [item["stamp"] - item["at"] for item in seen]
    rows = [item["rows"] - item["at"] for item in seen if item["rows"]] or stamps
    return {
        "first_contentful_paint_p50_ms": statistics.median(painted.contentful),
        "first_paint_p50_ms": statistics.median(painted.cold),
        "first_paint_max_ms": max(painted.cold),
        "first_paint_warm_p50_ms": statistics.median(painted.warm),
        "refreshes": len(took) + len(seen),
        "refresh_rerun_p50_ms": statistics.median(took),
        "refresh_rerun_p95_ms": percentile(took, 0.95),
        "refresh_rerun_max_ms": max(took),
        "refresh_bytes": statistics.median(size for viewer in viewers for size in viewer.bytes),
        "browser_stamp_p50_ms": statistics.median(stamps),
        "browser_stamp_p95_ms": percentile(stamps, 0.95),
        "browser_rows_p50_ms": statistics.median(rows),
        "browser_rows_p95_ms": percentile(rows, 0.95),
        "first_paint_bar_ms": FIRST_PAINT_BAR_MS,
        "refresh_p95_bar_ms": REFRESH_BAR_MS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--queries", type=int, default=1000, help="a multiple of 20; 1000 by default")
    given = parser.parse_args()
    paints, seconds = (2, 20.0) if given.quick else (5, 90.0)
    if not Path(browser.CHROMIUM).exists():
        print(
            f"skipped: no browser at {browser.CHROMIUM}: apt-get install -y chromium-headless-shell (or set CHROMIUM)"
        )
        return
    figures = measure(paints, seconds, given.queries // QUERIES_PER_AGENT)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "ui", "machine": machine, "figures": figures, "ratios": {}}, default=float))


if __name__ == "__main__":
    main()
