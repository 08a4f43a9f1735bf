"""A lake that hangs, fails in its own words, is compacted meanwhile or goes away: one clear line each, in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from controlplane.errors import LakeError
from controlplane.history import service as rooms
from controlplane.history.archive import Archive
from controlplane.history.service import HistoryService
from controlplane.history.timeout_pool import TimeoutPool
from controlplane.lake.lake import Lake
from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.settings import Settings
from tests.drivers import BEGIN, report
from tests.stores import sqlite_harness

DAY = 86400.0


class Sulky(MemoryFileSystem):
    """Files in memory; it hangs while `hangs` is set, and fails with no OSError while `refuses` is."""

    protocol = "sulky"
    hangs, refuses = threading.Event(), threading.Event()
    let_go = threading.Event()

    def _mood(self) -> None:
        if self.hangs.is_set():
            self.let_go.wait(60)
        if self.refuses.is_set():
            raise RuntimeError("Unable to locate credentials\nand much more")

    def info(self, path: str, **kwargs: Any) -> Any:
        self._mood()
        return super().info(path, **kwargs)

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self._mood()
        return super().find(path, *args, **kwargs)


@pytest.fixture
def sulky() -> Iterator[type[Sulky]]:
    fsspec.register_implementation("sulky", Sulky, clobber=True)
    Sulky.let_go.clear()
    yield Sulky
    Sulky.let_go.set()
    Sulky.hangs.clear()
    Sulky.refuses.clear()
    Sulky.store.clear()


def fill(url: str, batch: str = "1", first: int = 0) -> Lake:
    lake, rows = Lake.open(url, create=True), LakeRowBuilder()
    for number in range(first, first + 3):
        rows.progress(
            Producer("shop", "4.0.0", "log"), report("q", "r", number, BEGIN + number), BEGIN + number
        )
    staging = lake.stage("import", batch)
    lake.commit(
        staging, [part for name, table in rows.take().items() for part in staging.write(name, table, "0")]
    )
    return lake


def test_a_lake_that_hangs_is_given_up_in_time_and_then_at_once(sulky: type[Sulky]) -> None:
    fill("sulky://hangs")
    now = [0.0]
    archive = Archive("sulky://hangs", lambda: now[0])
    assert archive.times("q", BEGIN - 1, BEGIN + 9) == [BEGIN, BEGIN + 1, BEGIN + 2]
    sulky.hangs.set()
    now[0] += 60
    with pytest.raises(LakeError, match="did not answer within 0 s"):
        archive.within(0.2).manifest()
    sulky.let_go.set()
    sulky.hangs.clear()
    assert len(archive.times("q", BEGIN - 1, BEGIN + 9)) == 3
    spent = archive.within(5)
    now[0] += 60
    with pytest.raises(LakeError, match="took too long"):
        spent.manifest()


def test_who_asks_after_a_look_without_an_answer_waits_for_none() -> None:
    now, never = [0.0], threading.Event()
    timeout = TimeoutPool("s3://bucket/lake", lambda: now[0])
    with pytest.raises(LakeError, match="did not answer"):
        timeout.call(never.wait, 0.05, probe=True)
    with pytest.raises(LakeError, match="does not answer"):
        timeout.call(lambda: 1, 60)
    now[0] += 60
    assert timeout.call(lambda: 1, 60) == 1
    never.set()


def test_errors_that_only_a_file_system_knows_are_reported_in_one_line(
    sulky: type[Sulky], tmp_path: Path
) -> None:
    fill("sulky://refuses")
    archive = Archive("sulky://refuses")
    sulky.refuses.set()
    with pytest.raises(LakeError) as caught:
        archive.times("q", BEGIN - 1, BEGIN + 9)
    assert "Unable to locate credentials" in str(caught.value) and "\n" not in str(caught.value)
    with sqlite_harness(tmp_path) as harness:
        settings = replace(Settings(data_dir=tmp_path), lake="sulky://refuses")
        made = HistoryService(settings, harness.writer, harness.engine.connect, lambda: harness.now)
        harness.read(made.load)
        assert "Unable to locate credentials" in (made.status().error or "")


def test_the_server_starts_though_its_lake_hangs(
    sulky: type[Sulky], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "OPEN_TIMEOUT_SECONDS", 0.05)
    sulky.hangs.set()
    with sqlite_harness(tmp_path) as harness:
        settings = replace(Settings(data_dir=tmp_path), lake="sulky://hangs")
        made = HistoryService(settings, harness.writer, harness.engine.connect, lambda: harness.now)
        harness.read(made.load)
        assert "did not answer" in (made.status().error or "")


def test_files_that_were_compacted_since_the_manifest_was_read_are_looked_for_anew(tmp_path: Path) -> None:
    lake = fill(str(tmp_path / "lake"))
    archive = Archive(str(tmp_path / "lake"))
    archive.manifest()
    old = [part.path for part in lake.manifest().parts("progress")]
    staging = lake.stage("compact", "1")
    parts = staging.write("progress", lake.read("progress"), "0")
    lake.commit(staging, parts, replaces=old, seen=lake.manifest())
    assert archive.times("q", BEGIN - 1, BEGIN + 9) == [BEGIN, BEGIN + 1, BEGIN + 2]


def test_a_lake_that_went_away_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    fill(str(tmp_path / "lake"))
    now = [0.0]
    archive = Archive(str(tmp_path / "lake"), lambda: now[0])
    archive.manifest()
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    now[0] += 60
    with pytest.raises(LakeError, match="there is no lake"):
        archive.times("q", BEGIN - 1, BEGIN + 9)
    (tmp_path / "elsewhere").rename(tmp_path / "lake")
    assert len(archive.times("q", BEGIN - 1, BEGIN + 9)) == 3
