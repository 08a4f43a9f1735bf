"""The demonstration's healthy queries on an overloaded machine: slow, but never lost, stuck, failed or paged."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.scenarios import TROUBLES
from tests.spark.demonstration import FIRST_FIGURES, OF_THE_MACHINE, Demo

pytestmark = [pytest.mark.spark, pytest.mark.alone]

HEALTHY = {trouble.query for trouble in TROUBLES if trouble.is_healthy}
APPS = {trouble.app for trouble in TROUBLES if trouble.is_healthy}
FALSE_STATUSES = ("lost", "stuck", "failed", "unreachable")
HOGS_PER_CPU = 10
#: Seconds until the load average shows the hogs, and a poll of a busy server is answered.
SEEN_SECONDS = 120


@contextmanager
def hogs(number: int) -> Iterator[None]:
    """Processes that use all the CPU that they get."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for hog in started:
            hog.kill()
        for hog in started:
            hog.wait()


def false_findings(demo: Demo) -> list[str]:
    """What is false of a healthy query now: a status, a recorded status, or an alert that pages."""
    found = []
    for name, query in demo.queries().items():
        if name not in HEALTHY:
            continue
        changes = demo.call(f"queries/{query['query_id']}")["changes"]
        statuses = [query, *changes]
        found += [f"{name}: {item['reason']}" for item in statuses if item["status"] in FALSE_STATUSES]
    for alert in demo.call("alerts/history?limit=1000")["alerts"]:
        about = alert["query"] in HEALTHY or (alert["query"] is None and alert["app"] in APPS)
        if about and alert["severity"] == "critical":
            found.append(f"{alert['query'] or alert['app']}: {alert['name']}")
    return found


def names_the_overload(demo: Demo) -> bool:
    reasons = [query["reason"] for name, query in demo.queries().items() if name in HEALTHY]
    return any("host is overloaded: load" in reason for reason in reasons)


def watched(demo: Demo, seconds: float) -> list[dict[str, Any]]:
    """Watch the fleet under load for this time; the healthy queries as of the end."""
    with hogs(HOGS_PER_CPU * (os.cpu_count() or 1)):
        end = time.monotonic() + seconds
        demo.until(lambda: names_the_overload(demo), SEEN_SECONDS, demo.queries)
        while time.monotonic() < end:
            found = demo.until(lambda: [false_findings(demo)], SEEN_SECONDS, demo.queries)
            assert found == [[]]
            time.sleep(2)
        fired = demo.until(
            lambda: demo.call("alerts/history?limit=1000")["alerts"], SEEN_SECONDS, demo.queries
        )
    assert OF_THE_MACHINE in {alert["name"] for alert in fired if alert["app"] in APPS}
    return [query for name, query in demo.queries().items() if name in HEALTHY]


def check(folder: Path, seconds: float, *arguments: str) -> None:
    demo = Demo(folder, *arguments)
    try:
        healthy = {"running", "idle", "finished", "busy"}
        demo.until(
            lambda: (
                {s for n, s in demo.statuses().items() if n in HEALTHY} <= healthy
                and demo.queries().keys() >= HEALTHY
            ),
            FIRST_FIGURES,
            demo.statuses,
        )
        before = {name: query["batch_id"] for name, query in demo.queries().items()}
        after = watched(demo, seconds)
        moved = [q["name"] for q in after if (q["batch_id"] or 0) > (before[q["name"]] or 0)]
        assert moved, "no query committed a batch: the load was too much for any statement"
    finally:
        demo.close()


@pytest.mark.soak
def test_healthy_queries_stay_healthy_under_load(tmp_path: Path) -> None:
    only = (trouble.name for trouble in TROUBLES if trouble.is_healthy)
    check(tmp_path, 90, *(part for name in only for part in ("--only", name)))


@pytest.mark.soak
def test_healthy_queries_of_the_whole_fleet_stay_healthy_under_load_for_ten_minutes(tmp_path: Path) -> None:
    check(tmp_path, 600)
