"""Time and again SIGKILL while events arrive: lake, by two readers, and store have each exactly once."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.lake.lake import Lake
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.spark.landed import Zone, rejected, rows_by_duckdb, stored, stored_rows

pytestmark = pytest.mark.spark

SEED = 20261120
BATCH_FILES, WAITING_FILES = 30, 300


class Ingest:
    """The job as a process of its own, with its JVM and Python workers in one group."""

    def __init__(self, directory: Path, zone: Zone, server: LiveServer):
        self.lake, self.checkpoint = directory / "lake", directory / "checkpoint"
        self._log = (directory / "ingest.log").open("ab")
        self._stated = directory / "ingest.log"
        self._command = [
            *(sys.executable, "-m", "controlplane.cli.main", "history", "ingest", str(zone.folder)),
            *("--lake", str(self.lake), "--checkpoint", str(self.checkpoint), "--server", server.url),
            *("--master", "local[2]"),
        ]
        self._env = {
            **os.environ,
            "CONTROLPLANE_TOKEN": server.agent_token,
            "CONTROLPLANE_SPOOL_DIR": str(directory / "spool"),
            "SPARK_LOCAL_DIRS": str(directory / "scratch"),
            # Each of its JVMs lives for seconds: what they would compile well is never used.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, batches: int) -> None:
        """Return as soon as its stream runs and has done so many batches."""
        seen = self._stated.stat().st_size
        self._process = subprocess.Popen(
            [*self._command, "--trigger", "100ms", "--max-files", str(BATCH_FILES)],
            env=self._env,
            stderr=self._log,
            stdout=self._log,
            start_new_session=True,
        )
        assert eventually(lambda: "ingesting from" in self._text(seen), 300), self._text(seen)
        done = re.compile(r"^batch \d+: ", re.MULTILINE)
        assert eventually(lambda: len(done.findall(self._text(seen))) >= batches, 300), self._text(seen)

    def _text(self, since: int) -> str:
        return self._stated.read_bytes()[since:].decode(errors="replace")

    def kill(self, whole: bool) -> bool:
        """SIGKILL to the driver, or to all of it; True when it was in the middle of a batch."""
        assert self._process is not None
        assert self._process.poll() is None, self._text(0)
        if whole:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        newest = [
            max((int(p.name) for p in (self.checkpoint / name).glob("[0-9]*")), default=-1)
            for name in ("offsets", "commits")
        ]
        return newest[0] > newest[1]

    def stop(self) -> int:
        """SIGTERM; how it ended."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def finish(self) -> dict[str, int]:
        """Take in what is left."""
        done = subprocess.run(
            [*self._command, "--available-now", "--json"],
            env=self._env,
            capture_output=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        summary: dict[str, int] = json.loads(done.stdout)
        return summary

    def close(self) -> None:
        if self._process is not None:
            with_group = self._process.pid
            try:
                os.killpg(with_group, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
        self._log.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with live_server(tmp_path / "data") as running:
        yield running


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[Zone]:
    """Written to until the test is through with it, and no faster than a slow machine takes it in."""
    made, over = Zone(tmp_path / "landing", SEED), threading.Event()
    commits = tmp_path / "checkpoint" / "commits"

    def write() -> None:
        while not over.wait(1.0):
            taken = BATCH_FILES * len(list(commits.glob("[0-9]*")))
            if len(list(made.folder.iterdir())) - taken < WAITING_FILES:
                made.drop()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    made.finish = lambda: (over.set(), thread.join())  # type: ignore[attr-defined]
    yield made
    over.set()
    thread.join()


@pytest.fixture
def ingest(tmp_path: Path, zone: Zone, server: LiveServer) -> Iterator[Ingest]:
    made = Ingest(tmp_path, zone, server)
    yield made
    made.close()


def assert_store_is(zone: Zone, server: LiveServer) -> None:
    found = stored(server, but="controlplane")
    of_one = [zone.either.get((agent, seq), (agent, seq)) for agent, seq, _ in found]
    assert len(of_one) == len(set(of_one)), "stored twice"
    assert set(of_one) == set(zone.events)
    assert stored_rows(server, zone) == sorted(zone.rows.values())


@pytest.mark.soak
@pytest.mark.parametrize("kills", [2, 20])
def test_kills_lose_nothing_and_double_nothing(
    kills: int, ingest: Ingest, zone: Zone, server: LiveServer, request: pytest.FixtureRequest
) -> None:
    chance, amid = random.Random(SEED), 0
    for number in range(kills):
        ingest.start(batches=chance.choice([0, 1, 1, 2]))
        time.sleep(chance.uniform(0.0, 2.0))  # the random moment itself; nothing is waited for
        amid += ingest.kill(whole=number % 2 == 0)
    ingest.start(batches=1)
    assert ingest.stop() == 0
    zone.finish()  # type: ignore[attr-defined]
    ingest.finish()

    assert amid >= kills // 5, f"only {amid} kills met a batch"
    wanted = sorted(zone.rows.values())
    assert rows_by_duckdb(ingest.lake) == wanted
    lake = Lake.open(str(ingest.lake))
    spark = request.getfixturevalue("spark")
    frame = spark.read.parquet(*lake.paths("progress"))
    read_samples = frame.selectExpr(
        "run_id", "batch_id", "unix_micros(trigger_at)", "input_rows", "duration_ms"
    )
    assert sorted(tuple(row) for row in read_samples.collect()) == wanted
    assert sorted(rejected(ingest.lake)) == sorted(zone.malformed)
    starts = lake.read("lifecycle", columns=["run_id", "event"]).to_pylist()
    assert sorted((item["run_id"], item["event"]) for item in starts) == sorted(
        (driver.run_id, "started") for driver in zone.drivers
    )
    assert_store_is(zone, server)
    ours = server.client().get("/api/v1/queries", params={"app": "controlplane"}).json()["queries"]
    assert [our["name"] for our in ours] == ["history-ingest"]
    print(json.dumps({"rows": len(wanted), "events": len(zone.events), "kills_amid_a_batch": amid}))
