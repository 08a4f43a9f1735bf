"""A server's day in small: events come in, every slot is scraped; what the grid then holds is the truth."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from alerts.matching.labels import Matcher
from alerts.promql.series import Series
from controlplane.events.window import Window
from controlplane.health.verdicts import StatusChange, VerdictLog
from controlplane.ingest.service import IngestService
from controlplane.metrics.series.scrape import ServerMetrics
from controlplane.metrics.series.service import SeriesService
from controlplane.store import queries
from listeners.protocol.catalogue import METRICS, SOURCE_METRICS, STATE_METRICS
from tests.drivers import BEGIN, Driver, real_reports
from tests.stores import StoreHarness

STEP = 15.0
#: BEGIN is a multiple of the step.
EVERY_METRIC = frozenset(m.name for m in (*METRICS, *STATE_METRICS.values(), *SOURCE_METRICS.values()))
Samples = list[tuple[float, bytes]]


@dataclass
class Story:
    """A harness with its series, and time that goes on by `until`."""

    harness: StoreHarness
    folder: Path
    verdicts: VerdictLog = field(default_factory=VerdictLog)
    kept: float = 4 * 3600.0
    length: int = 120  # of the window

    def __post_init__(self) -> None:
        self.harness.now = BEGIN
        self.harness.window = Window(self.length, lambda: self.harness.now)
        self.harness.ingest = IngestService(
            self.harness.writer, self.harness.window, lambda: self.harness.now
        )
        self.service = self.new_service()

    def new_service(self) -> SeriesService:
        """As a restart of the server would have it, but for the snapshot."""
        reading: Callable[[], AbstractContextManager[Connection]] = self.harness.engine.connect
        window, clock = self.harness.window, lambda: self.harness.now
        service = SeriesService(window, self.verdicts, clock, ServerMetrics, reading, self.folder, STEP)
        service.keep(dict.fromkeys(EVERY_METRIC, self.kept))
        return service

    def tell(self, at: float, *lines: bytes) -> None:
        self.go_to(at)
        self.harness.accept(*lines)
        self.judge()

    def go_to(self, at: float) -> None:
        """Scrape every slot up to `at`, each after the verdicts of that moment are on record."""
        slot = (self.harness.now // STEP + 1) * STEP
        while slot <= at:
            self.harness.now = slot
            self.judge()
            self.service.scrape(slot)
            slot += STEP
        self.harness.now = max(self.harness.now, at)

    def judge(self) -> None:
        changes = self.verdicts.claim(self.verdicts.changes(self.harness.window.views(), self.harness.now))
        self.harness.write(record, changes)


def record(connection: Connection, changes: list[StatusChange]) -> None:
    rows = [
        {"query_id": c.query_id, "at": c.at, "status": c.status.value, "reason": c.reason} for c in changes
    ]
    queries.record_statuses(connection, rows)


def named(name: str, **labels: str) -> list[Matcher]:
    return [Matcher("__name__", "=", name), *(Matcher(k, "=", v) for k, v in labels.items())]


def by_labels(series: list[Series]) -> dict[tuple[tuple[str, str], ...], Samples]:
    """Samples with the bits of their values, since a stale mark is a NaN like no other."""
    return {
        tuple(sorted(each_series.labels.items())): list(
            zip(each_series.times.tolist(), [v.tobytes() for v in each_series.values], strict=True)
        )
        for each_series in series
    }


def batch(driver: Driver, query: str, run: str, number: int, at: float, **more: Any) -> bytes:
    return driver.progress(query, run, number, at=at, **more)


def busy_hour(story: Story, seed: int, events: int = 120) -> None:
    """Batches of all kinds, rests, ends, failures, starts again, failed starts, a new checkpoint of one name."""
    chance, kinds = random.Random(seed), real_reports()
    drivers = [Driver(app=f"app{n}", labels={"team": f"t{n}"}) for n in range(2)]
    runs = dict.fromkeys(("q0", "q1", "q2"), 0)
    at = BEGIN + 1.0
    for number, query in enumerate(runs):
        story.tell(at + number, drivers[number % 2].started(query, f"{query}-0", name=query, at=at + number))
    counts, heads = dict.fromkeys(runs, 0), dict.fromkeys(runs, 0)
    for _ in range(events):
        at += chance.choice([3.0, 7.0, 11.0, 40.0]) + chance.random()
        query = chance.choice(sorted(runs))
        driver, run = drivers[int(query[1]) % 2], f"{query}-{runs[query]}"
        event = chance.random()
        if event < 0.72:
            lines = [_report(chance, kinds, driver, query, run, counts, heads, at)]
        elif event < 0.88:
            lines = [driver.line("idle", {"id": query, "runId": run}, at)]
        elif event < 0.94:
            failed = chance.choice([None, "[DIVIDE_BY_ZERO] no", "boom"])
            lines = [driver.terminated(query, run, exception=failed, at=at)]
            runs[query] += 1
            lines += [driver.started(query, f"{query}-{runs[query]}", name=query, at=at)] * (event < 0.92)
        elif event < 0.97:
            lines = [driver.line("start_failed", {"id": query, "name": query, "exception": "no table"}, at)]
        else:
            lines = [driver.started(f"{query}x", f"{query}x-{runs[query]}", name=query, at=at)]
        story.tell(at, *lines)


def _report(
    chance: random.Random,
    kinds: list[dict[str, Any]],
    driver: Driver,
    query: str,
    run: str,
    counts: dict[str, int],
    heads: dict[str, int],
    at: float,
) -> bytes:
    counts[query] += 1
    kind = chance.choice(kinds)
    start, end = heads[query], heads[query] + chance.randint(0, 50)
    heads[query] = end
    source = {"description": "Kafka", "startOffset": {"t": {"0": start}}, "endOffset": {"t": {"0": end}}}
    source |= {
        "latestOffset": {"t": {"0": end + chance.choice([0, 0, 30, 500])}},
        "numInputRows": end - start,
    }
    more = {"stateOperators": kind.get("stateOperators", []), "sources": [source], "name": query}
    more |= {"eventTime": kind.get("eventTime", {}), "sink": {"numOutputRows": chance.choice([5, -1])}}
    return batch(driver, query, run, counts[query], at, **more)
