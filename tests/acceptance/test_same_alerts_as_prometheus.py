"""One rule file in the server and in a real Prometheus that scrapes it: the same alerts at the same times.

Ten minutes of real time with a failing fleet and the shipped rules, at a twentieth of their windows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from alerts.rules.pack import render
from tests.acceptance.live import eventually, live_server
from tests.acceptance.simulated import TLS
from tests.acceptance.simulation import SimulatedDriver, SimulatedStream, WallClockSimulation, steadily
from tests.ports import free_port
from tests.stores import skip_or_fail

SCALE, STEP = 0.05, 1.0
MINUTES = 10.0
#: The longest interval of a group at this scale, one scrape, and the polling interval of this test.
WITHIN = 1.5 + STEP + 1.0
#: What a scrape adds.
TARGET = ("job", "instance")
Identity = tuple[tuple[str, str], ...]


@dataclass
class Seen:
    """Since when and until when each alert fired, by its labels; times are Unix seconds."""

    spells: dict[Identity, list[list[float]]] = field(default_factory=dict)
    firing: set[Identity] = field(default_factory=set)

    def look(self, alerts: list[dict[str, Any]], now: float) -> None:
        fires = {identity(alert["labels"]) for alert in alerts if alert["state"] == "firing"}
        for item in fires - self.firing:
            self.spells.setdefault(item, []).append([now, float("inf")])
        for item in self.firing - fires:
            self.spells[item][-1][1] = now
        self.firing = fires


def identity(labels: dict[str, str]) -> Identity:
    return tuple(sorted((name, value) for name, value in labels.items() if name not in TARGET))


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    program = shutil.which("prometheus") or skip_or_fail("Prometheus", "apt-get install -y prometheus")
    (folder / "rules.yml").write_text(render(SCALE))
    config = {
        "global": {
            "scrape_interval": f"{STEP:g}s",
            "scrape_timeout": f"{STEP:g}s",
            "evaluation_interval": "1s",
        },
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [{"job_name": "controlplane", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    address = f"127.0.0.1:{free_port()}"
    options = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, *options, f"--web.listen-address={address}"], stderr=log)
    try:
        url = f"http://{address}"
        assert eventually(lambda: _ready(url)), (folder / "log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", verify=TLS).is_success
    except httpx.HTTPError:
        return False


def troubled(simulation: WallClockSimulation) -> list[SimulatedDriver]:
    """Something of every kind, and healthy neighbours."""
    shop, jobs = SimulatedDriver(simulation, "shop"), SimulatedDriver(simulation, "jobs")
    since = simulation.now
    rate = steadily(50.0, since)

    def state(removed: int, growth: int) -> Any:
        def reported(at: float, batch: int) -> dict[str, Any]:
            rows = {"numRowsTotal": 12_000 + batch * growth, "numRowsUpdated": 9, "numRowsRemoved": removed}
            return {"operatorName": "stateStoreSave", "memoryUsedBytes": 1_000_000, **rows}

        return reported

    for stream in (
        SimulatedStream(
            "healthy", rate, lambda rows: 0.3, 2.0, state=state(5, 0), watermark=lambda at: at - 20
        ),
        SimulatedStream("behind", rate, lambda rows: 0.5, 2.0, 60),
        SimulatedStream("overruns", rate, lambda rows: 3.5, 2.0),
        SimulatedStream("pinned", rate, lambda rows: 0.3, 2.0, watermark=lambda at: min(at, since + 60) - 30),
        SimulatedStream("hoards", rate, lambda rows: 0.3, 2.0, state=state(0, 60)),
    ):
        shop.start(stream)
    jobs.start(SimulatedStream("nightly", rate, lambda rows: 0.3, 2.0))
    return [shop, jobs]


def events(simulation: WallClockSimulation, drivers: list[SimulatedDriver]) -> None:
    """What happens in the ten minutes: a query loops, one fails and is started again, one driver dies."""
    shop, jobs = drivers
    since = simulation.now
    text = "org.apache.spark.SparkException: [CAST_INVALID_INPUT] no number"
    fails = SimulatedStream("fails", steadily(50.0, since), lambda rows: 0.3, 2.0)

    def fail() -> None:
        shop.stop(fails, text, "CAST_INVALID_INPUT")

    shop.start(fails)
    simulation.at(since + 60, fail)
    simulation.at(since + 150, lambda: shop.start(fails))
    for number in range(4):
        simulation.at(since + 240 + 6 * number, fail)
        simulation.at(since + 242 + 6 * number, lambda: shop.start(fails))
    simulation.at(since + 420, jobs.die)


@pytest.mark.soak
def test_prometheus_that_scrapes_us_raises_the_same_alerts(tmp_path: Path) -> None:
    with live_server(tmp_path / "data", rules_scale=SCALE, series_step=STEP) as server:
        simulation = WallClockSimulation(server.plane)
        with prometheus(tmp_path, server.url.removeprefix("http://")) as url, server.client() as ours:
            peer = httpx.Client(base_url=url, verify=TLS)
            # Rules that look back see what both have only from the first scrape on.
            assert eventually(lambda: peer.get("/api/v1/query?query=up==1").json()["data"]["result"])
            drivers = troubled(simulation)
            events(simulation, drivers)
            here, there = Seen(), Seen()
            end, looked, blind = simulation.now + MINUTES * 60, simulation.now, 0.0
            while simulation.now < end:
                simulation.pass_time(0.5)
                blind, looked = max(blind, simulation.now - looked), simulation.now
                here.look(ours.get("/prometheus/api/v1/alerts").json()["data"]["alerts"], simulation.now)
                there.look(peer.get("/api/v1/alerts").json()["data"]["alerts"], simulation.now)
            peer.close()
    names = {dict(spell)["alertname"] for spell in here.spells}
    assert {"AgentLost", "QueryFailed", "CrashLoop", "LagGrowing", "Overrun", "WatermarkStuck"} <= names
    assert "StateGrowthWithoutEviction" in names
    # What a busy machine kept us from seeing cannot be held against either.
    assert not (found := differences(here, there, end, WITHIN + max(0.0, blind - 1.0))), "\n".join(found)
    assert not [spell for spell in here.spells if dict(spell).get("query") == "healthy"]


def differences(here: Seen, there: Seen, end: float, within: float = WITHIN) -> list[str]:
    """Alerts that one has and the other has not, within an interval; too short or too late ones are left out."""
    found = []
    for item in sorted({*here.spells, *there.spells}):
        ours, theirs = (seen.spells.get(item, []) for seen in (here, there))
        for mine, others, who in ((ours, theirs, "only we"), (theirs, ours, "only Prometheus")):
            for spell in mine:
                brief = spell[1] - spell[0] <= within or end - spell[0] <= within
                if not brief and not any(_alike(spell, other, end, within) for other in others):
                    found.append(f"{who}: {dict(item)} {spell} against {others}")
    return found


def _alike(item: list[float], other: list[float], end: float, within: float) -> bool:
    begins = abs(item[0] - other[0]) <= within
    ends = item[1] == other[1] or abs(min(item[1], end) - min(other[1], end)) <= within
    return begins and ends


def test_a_spell_that_only_one_of_them_has_is_a_difference() -> None:
    now = time.time()
    here, there = Seen(), Seen()
    alert = {"labels": {"alertname": "Stuck", "job": "x"}, "state": "firing"}
    here.look([alert], now)
    here.look([], now + 60)
    assert differences(here, there, now + 600)
    there.look([{**alert, "labels": {"alertname": "Stuck"}}], now + 2)
    there.look([], now + 61)
    assert not differences(here, there, now + 600)
