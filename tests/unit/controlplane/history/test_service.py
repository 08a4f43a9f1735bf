"""When the server moves events, and what it states where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.history import offload_process
from controlplane.history.service import RETRY_SECONDS, HistoryService
from controlplane.settings import Settings
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness

DAY = 86400.0


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def service(
    harness: StoreHarness, folder: Path, lacking: str | None = None, lake: bool = True
) -> HistoryService:
    settings = replace(Settings(data_dir=folder), lake=str(folder / "lake") if lake else None)
    made = HistoryService(
        settings, harness.writer, harness.engine.connect, lambda: harness.now, lambda: lacking
    )
    harness.read(made.load)
    return made


def test_without_a_lake_nothing_happens_and_nothing_is_kept_back(
    harness: StoreHarness, tmp_path: Path
) -> None:
    made = service(harness, tmp_path, lake=False)
    made.tick()
    assert made.hot_seconds is None and made.series_source(harness.window) is None
    assert made.status().lake is None and made.status().next_at is None


def test_nothing_is_started_where_nothing_is_old_enough(harness: StoreHarness, tmp_path: Path) -> None:
    made = service(harness, tmp_path, lacking="Java")
    harness.accept(Driver().started("q", "r", at=harness.now))
    made.tick()
    assert made.status().error is None
    assert made.status().next_at == harness.now + 6 * 3600


def test_what_the_machine_lacks_is_stated_and_tried_again(harness: StoreHarness, tmp_path: Path) -> None:
    made = service(harness, tmp_path, lacking="Java 17 or newer is missing")
    harness.accept(Driver().started("q", "r", at=BEGIN))
    harness.now += 10 * DAY
    made.tick()
    status = made.status()
    assert "Java 17 or newer is missing" in (status.error or "")
    assert status.next_at == harness.now + RETRY_SECONDS and not status.moving


def test_a_lake_that_cannot_be_made_is_stated_at_the_start(harness: StoreHarness, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")
    assert "the lake cannot be used" in (service(harness, tmp_path).status().error or "")


def test_the_database_and_its_password_are_not_on_the_command_line(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, lake="/lake", database_url="postgresql://u:secret@h/d", hot_days=1.5
    )
    command = offload_process.command(settings, BEGIN)
    assert not any("secret" in word for word in command)
    reported = offload_process.environment(settings, {"PATH": "/bin"})
    assert reported["CONTROLPLANE_DATABASE_URL"] == "postgresql://u:secret@h/d"
    assert (reported["CONTROLPLANE_HOT_DAYS"], reported["PATH"]) == ("1.5", "/bin")
