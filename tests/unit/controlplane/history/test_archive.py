"""What the lake reports of times that the store has forgotten is what the store reported of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.history.archive import Archive
from controlplane.metrics.series.replay import SeriesReplay
from tests.drivers import BEGIN, Driver, real_reports
from tests.stores import StoreHarness, sqlite_harness
from tests.unit.controlplane.history.lakes import forget, moved_to
from tests.unit.controlplane.metrics.series.stories import STEP, Story, busy_hour, by_labels, named

PREFIX = "spark_streaming_"
#: One of each way in which a figure comes about.
SOME = (
    "query_status",
    "batch_duration_seconds",
    "batch_phase_seconds",
    "utilization_ratio",
    "source_lag_seconds",
    "source_arrival_rows_per_second",
    "state_rows",
    "rocksdb_get_seconds",
    "batches_total",
    "input_rows_total",
    "query_failures_total",
)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def test_a_report_comes_back_as_it_went_in(harness: StoreHarness, tmp_path: Path) -> None:
    driver, kinds = Driver(), real_reports()
    for number, kind in enumerate(kinds):
        more = {
            name: value
            for name, value in kind.items()
            if name not in ("id", "runId", "name", "batchId", "timestamp")
        }
        harness.accept(driver.progress("q", "r", number, at=BEGIN + number + 0.125, **more))
    before = harness.progress("q", BEGIN, BEGIN + 100)
    moved_to(harness, tmp_path / "lake", BEGIN + 500)
    assert Archive(str(tmp_path / "lake")).reports("q", BEGIN, BEGIN + 100) == before
    assert len(before) == len(kinds) > 5


@pytest.mark.parametrize("seed", [1, pytest.param(7, marks=pytest.mark.long)])
def test_series_are_the_same_whether_the_store_or_the_lake_has_the_events(tmp_path: Path, seed: int) -> None:
    with sqlite_harness(tmp_path) as harness:
        story = Story(harness, tmp_path, length=15)
        busy_hour(story, seed)
        begin, end = BEGIN - 1.0, harness.now
        names = [PREFIX + name for name in SOME]
        before = {
            name: by_labels(list(story.service.replay.select(named(name), begin, end))) for name in names
        }
        middle = BEGIN + 0.6 * (end - BEGIN)
        commit = moved_to(harness, tmp_path / "lake", middle)
        assert forget(harness, middle, commit.facts["until"]) > 30
        archive = Archive(str(tmp_path / "lake"))
        replay = SeriesReplay(harness.engine.connect, harness.window, lambda: harness.now, STEP, archive)
        for name in names:
            assert by_labels(list(replay.select(named(name), begin, end))) == before[name], name


@pytest.mark.long
def test_without_the_lake_the_store_alone_would_report_less(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness:
        story = Story(harness, tmp_path, length=15)
        busy_hour(story, 1)
        name = "spark_streaming_batch_duration_seconds"
        before = by_labels(list(story.service.replay.select(named(name), BEGIN, harness.now)))
        middle = BEGIN + 0.6 * (harness.now - BEGIN)
        forget(harness, middle, moved_to(harness, tmp_path / "lake", middle).facts["until"])
        assert by_labels(list(story.service.replay.select(named(name), BEGIN, harness.now))) != before
