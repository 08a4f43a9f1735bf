"""What the embedded store promises when things break: a killed server, a full disk."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from controlplane.errors import StoreUnavailable
from controlplane.runtime import disk_reserve
from controlplane.store import retention
from controlplane.store.engine import default_url
from controlplane.store.tables import events
from tests.drivers import BEGIN, Driver
from tests.paths import ROOT
from tests.stores import StoreHarness, open_harness, skip_or_fail, sqlite_harness

AGENT = "6d1f0a52-2d0c-4b43-9a3e-0f2d3c1b5a77"

#: A server that states on its standard output what it has acknowledged, until somebody kills it.
SERVER = """
import sys
from pathlib import Path
from tests.drivers import Driver
from tests.stores import sqlite_harness, open_harness, default_url

driver = Driver(agent=sys.argv[2])
driver.seq = int(sys.argv[3])
with open_harness(default_url(sys.argv[1])) as harness:
    while True:
        lines = [driver.progress("q", "r", driver.seq) for _ in range(7)]
        print(harness.accept(*lines).acknowledged, flush=True)
"""


def stored(harness: StoreHarness) -> list[int]:
    with harness.engine.connect() as connection:
        return list(connection.execute(sa.select(events.c.seq).order_by(events.c.seq)).scalars())


def kill_after(directory: Path, first_seq: int, answers: int) -> int:
    """Run a server until it has given so many answers, then SIGKILL it; the last it acknowledged."""
    command = [sys.executable, "-c", SERVER, str(directory), AGENT, str(first_seq)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        acknowledged = [int(server.stdout.readline()) for _ in range(answers)][-1]
        server.send_signal(signal.SIGKILL)
        rest = server.stdout.read().split()  # what it still said before it died counts as well
        return int(rest[-1]) if rest else acknowledged


def test_a_damaged_file_acknowledges_nothing_and_refuses_no_line(tmp_path: Path) -> None:
    driver = Driver(agent=AGENT)
    with sqlite_harness(tmp_path) as harness:
        harness.accept(*(driver.progress("q", "r", n) for n in range(50)))
        with harness.engine.connect() as connection:
            index = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_events_1'"
            root = int(connection.exec_driver_sql(index).scalar_one())
            page = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    with open_harness(default_url(tmp_path)) as harness:
        with (tmp_path / "controlplane.db").open("r+b") as file:
            file.seek((root - 1) * page)
            file.write(b"\xee" * 200)
        harness.engine.dispose()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="SQLITE_CORRUPT"):
                harness.accept(driver.progress("q", "r", 60), driver.progress("q", "r", 61))
        assert harness.ingest.rejected == 0


def test_a_killed_server_has_lost_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path):
        pass
    dice, acknowledged = random.Random(20261120), 0
    for _ in range(3):
        acknowledged = kill_after(tmp_path, acknowledged, dice.randint(2, 30))
        with open_harness(default_url(tmp_path)) as harness:
            seqs = stored(harness)
            assert set(range(1, acknowledged + 1)) <= set(seqs)
            assert len(seqs) == len(set(seqs))
            assert harness.reloaded().totals("q")["batches"] == len(seqs)


def test_what_a_killed_server_did_not_acknowledge_may_be_sent_again(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path):
        pass
    acknowledged = kill_after(tmp_path, 0, 5)
    driver = Driver(agent=AGENT)
    with open_harness(default_url(tmp_path)) as harness:
        harness.accept(*(driver.progress("q", "r", n) for n in range(acknowledged + 14)))
        assert stored(harness) == list(range(1, acknowledged + 15))
        assert harness.reloaded().totals("q")["batches"] == acknowledged + 14


# -- a disk that fails -----------------------------------------------------------------------------

#: A server that goes on sending whatever it is answered.
STUBBORN = """
import sys
from tests.drivers import Driver
from tests.stores import open_harness, default_url
from controlplane.errors import StoreUnavailable

driver = Driver(agent=sys.argv[2])
with open_harness(default_url(sys.argv[1])) as harness:
    for _ in range(10):
        try:
            print(harness.accept(driver.progress("q", "r", driver.seq)).acknowledged, flush=True)
        except StoreUnavailable as error:
            print("refused:", error, flush=True)
"""


def test_after_one_failed_sync_nothing_is_acknowledged_until_a_restart(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        skip_or_fail("strace", "apt-get install -y strace")
    with sqlite_harness(tmp_path):
        pass
    inject = ["-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=fsync,fdatasync"]
    inject += ["-e", "inject=fsync,fdatasync:error=EIO:when=6"]
    command = [str(strace), *inject, sys.executable, "-c", STUBBORN, str(tmp_path), AGENT]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    if "PTRACE" in printed.stderr or "ptrace" in printed.stderr:
        pytest.skip("strace may not trace here")
    answers = printed.stdout.splitlines()
    refused = [answer.startswith("refused") for answer in answers]
    first = refused.index(True)
    assert all(refused[first:])
    assert "SQLITE_IOERR_FSYNC" in answers[first]
    with open_harness(default_url(tmp_path)) as harness:
        assert set(map(int, answers[:first])) <= set(stored(harness))
        harness.accept(Driver().started("q", "r"))


# -- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB in memory; only root can make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    made = (
        os.geteuid() == 0
        and shutil.which("mount")
        and subprocess.run(mount, check=False, capture_output=True)
    )
    if not made or made.returncode != 0:
        pytest.skip("a small disk needs root: mount -t tmpfs is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(disk: Path) -> Path:
    """A stranger's file that takes what is left."""
    file = disk / "stranger"
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    out.write(b"x" * size)
    return file


def send_until_refused(harness: StoreHarness, driver: Driver) -> int:
    """How many events were acknowledged until the store refused."""
    for _ in range(2_000):
        before = driver.seq
        try:
            harness.accept(
                *(driver.progress("q", "r", driver.seq, noise=os.urandom(400).hex()) for _ in range(50))
            )
        except StoreUnavailable:
            return before
    pytest.fail("the disk never became full")


def test_on_a_full_disk_reads_and_deletions_go_on_and_nothing_acknowledged_is_lost(small_disk: Path) -> None:
    with open_harness(default_url(small_disk)) as harness:
        driver = Driver()
        retention.prune(harness.writer, BEGIN, 1e9, 10**10)
        assert disk_reserve.reserve_path(small_disk / "controlplane.db").exists()
        harness.accept(*(driver.progress("q", "r", n, noise=os.urandom(400).hex()) for n in range(3_000)))
        stranger = fill(small_disk)
        acknowledged = send_until_refused(harness, driver)

        assert set(range(1, acknowledged + 1)) <= set(stored(harness))
        assert len(harness.progress("q", 0.0, 1e12, 100)) == 100

        gone = retention.prune(harness.writer, BEGIN, 1e9, retention.used_store_bytes(harness.engine) // 2)
        assert gone.events > 0
        assert harness.accept(driver.started("q", "r")).stored == 1

        stranger.unlink()
        retention.prune(harness.writer, BEGIN, 1e9, 10**10)
        assert disk_reserve.reserve_path(small_disk / "controlplane.db").exists()


def test_a_server_starts_and_reads_on_a_full_disk(small_disk: Path) -> None:
    with open_harness(default_url(small_disk)) as harness:
        harness.accept(Driver().progress("q", "r", 0))
        retention.prune(harness.writer, BEGIN, 1e9, 10**10)
    fill(small_disk)
    with open_harness(default_url(small_disk)) as harness:
        assert harness.reloaded().view("q") is not None
