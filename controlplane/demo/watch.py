"""The demo's main loop: start the drivers, poll the server every second, print the fleet.

`Watch.tick` decides what to print; `watch` is the loop around it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.console.client import ApiClient
from controlplane.console.errors import CallFailed
from controlplane.demo import report
from controlplane.demo.interrupts import Interrupts
from controlplane.demo.launch import Options
from controlplane.demo.processes import Child
from controlplane.demo.scenarios import Driver, drivers
from controlplane.demo.start_order import StartOrder

TABLE_EVERY = 15.0
WAITING_EVERY = 5.0
#: The demo ends when one of these ends; a driver may end, and one does.
PARTS = {"server", "dashboard", "feeder"}
Say = Callable[[str], None]


class Watch:
    """What was printed, and what is due next. Times are seconds since the drivers were started."""

    def __init__(self, options: Options, say: Say, since: float):
        """`since`: Unix seconds; queries without an event since then belong to an earlier demonstration."""
        self._options, self._say, self._since = options, say, since
        self._wanted = [trouble.query for trouble in options.troubles]
        self._live, self._due, self._ended = False, 0.0, set[str]()

    def is_due(self, now: float) -> bool:
        """Whether the server should be polled now: always until the first batch is reported."""
        return not self._live or now >= self._due

    def live_apps(self, answer: dict[str, Any]) -> set[str]:
        """Apps with a reported batch."""
        return {str(query.get("app")) for query in self._known(answer) if report.shows_figures(query)}

    def _known(self, answer: dict[str, Any]) -> list[report.Query]:
        return report.of_fleet(answer.get("queries", []), self._wanted, self._since)

    def tick(self, now: float, answer: dict[str, Any]) -> None:
        """Print what is due, from a response of `GET /api/v1/queries`."""
        known = self._known(answer)
        if not self._live and any(map(report.shows_figures, known)):
            self._live, self._due = True, now
            self._say(
                f"demo: first batches after {now:.0f} s. Open {self._options.ui_url} · stop with Ctrl-C"
            )
        if now < self._due:
            return
        if not self._live:
            self._due = now + WAITING_EVERY
            self._say("demo: " + report.waiting(now, known))
        elif known:  # an empty response is retried in a second
            self._due = now + TABLE_EVERY
            width = shutil.get_terminal_size((150, 24)).columns
            head, *rows = report.table(known, width)
            self._say("\n".join([f"{time.strftime('%H:%M:%S')} {head}", *rows]))

    def report_ended(self, children: Sequence[Child]) -> set[str]:
        """Print each child that has ended, once; returns the names of all that have ended."""
        for child in children:
            if child.exit_code is not None and child.name not in self._ended:
                self._ended.add(child.name)
                self._say(f"demo: {child.name} ended with exit code {child.exit_code}; see {child.log}")
        return self._ended


def watch(
    options: Options,
    children: list[Child],
    start: Callable[[Driver], Child],
    interrupts: Interrupts,
    say: Say,
) -> int:
    """Start the drivers in turn, then poll. Returns 0 after the time or an interrupt, 1 if a part has ended."""
    token = options.admin_token.read_text(encoding="utf-8").strip()
    client, view = ApiClient(options.url, token, timeout=5.0), Watch(options, say, time.time())
    turns, began = StartOrder(drivers(options.troubles)), time.monotonic()
    end = began + options.minutes * 60 if options.minutes is not None else float("inf")
    answer: dict[str, Any] = {}
    while time.monotonic() < end:
        driver = turns.next(time.monotonic() - began, view.live_apps(answer))
        if driver is not None:
            children.append(start(driver))
        if interrupts.wait(0.5):
            return 0
        if view.report_ended(children) & PARTS:
            return 1
        now = time.monotonic() - began
        if view.is_due(now) or not turns.over:
            answer = fleet_of(client)
            view.tick(now, answer)
    say(f"demo: stopping after {options.minutes:g} minutes")
    return 0


def fleet_of(client: ApiClient) -> dict[str, Any]:
    """The response of `GET /api/v1/queries`; empty where the server does not answer."""
    try:
        return client.get("/api/v1/queries") or {}
    except CallFailed:
        return {}
