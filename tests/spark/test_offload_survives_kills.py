"""The job that moves events is killed in the middle of its commits: store and lake together stay all there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.history.service import HistoryService
from controlplane.lake.lake import Lake
from controlplane.settings import Settings
from controlplane.store import offload_marks, retention
from tests.acceptance.live import eventually
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness

pytestmark = [pytest.mark.spark, pytest.mark.long]
#: The job as it is, in small commits; before the file's rename of this number the process is killed.
JOB = """
import os, signal, sys
from controlplane.lake.folders import LakeFolder
from controlplane.pipeline.offload import offload_job
offload_job.EVENTS_PER_COMMIT, offload_job.EVENTS_PER_TASK = 40, 15
left, put = int(sys.argv.pop(1)), LakeFolder._put
def counted(self, source, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, source, target)
LakeFolder._put = counted
from controlplane.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
#: A commit is a journal, 10 files and the manifest: in the midst of these, the last in the middle of the second commit.
KILLS = (2, 12)
NEVER = 10**6
#: In the environment of the job and all that it starts.
MARK = "TEST_OF_LAKE"


def offload(harness: StoreHarness, lake: Path, kill_at: int) -> int:
    arguments = [
        "history",
        "offload",
        "--lake",
        str(lake),
        "--database-url",
        harness.url,
        "--master",
        "local[1]",
    ]
    command = [sys.executable, "-c", JOB, str(kill_at), *arguments, "--before", str(harness.now)]
    done = subprocess.run(
        command,
        env={**os.environ, MARK: str(lake), "PYTHONPATH": os.getcwd()},
        check=False,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def test_nothing_is_lost_and_nothing_is_twice_wherever_the_job_is_killed(tmp_path: Path) -> None:
    lake, driver, reported = tmp_path / "lake", Driver(), 0
    with sqlite_harness(tmp_path) as harness:
        settings = replace(Settings(data_dir=tmp_path), lake=str(lake))
        service = HistoryService(settings, harness.writer, harness.engine.connect, lambda: harness.now)
        harness.accept(driver.started("q", "r", at=BEGIN))
        harness.write(offload_marks.store_id)
        for kill in (*KILLS, NEVER):
            for _ in range(50):
                harness.accept(driver.progress("q", "r", reported, at=BEGIN + reported))
                reported += 1
            harness.now = BEGIN + reported
            assert offload(harness, lake, kill) == (0 if kill == NEVER else -signal.SIGKILL)
            service.advance()
            retention.prune(harness.writer, harness.now, 1e9, 2**40, hot_seconds=1.0)
            held = stored(harness)
            assert set(held) | set(batches(lake)) == set(range(reported)), kill
            assert len(batches(lake)) == len(set(batches(lake))), kill
        assert service.status().error is None
        assert len(stored(harness)) <= 1
    assert sorted(batches(lake)) == list(range(reported))
    assert Lake.open(str(lake)).read("lifecycle")["event"].to_pylist() == ["started"]
    assert eventually(lambda: not jvms(lake)), "a JVM outlived its job"


def stored(harness: StoreHarness) -> list[int]:
    with harness.engine.connect() as connection:
        return [
            event.data["batchId"]
            for event in offload_marks.events_to_offload(connection, 0, 2**62)
            if event.type == "progress"
        ]


def batches(lake: Path) -> list[int]:
    if not (lake / "lake.json").exists():
        return []
    found: list[int] = Lake.open(str(lake)).read("progress")["batch_id"].to_pylist()
    return found


def jvms(lake: Path) -> list[int]:
    """Processes that know of this lake: of this test's jobs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            expected = (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{MARK}={lake}".encode() in expected:
            found.append(int(process.name))
    return found
