"""The past of recorded series, alerts and the server's own metrics: as the grid had it, after it has dropped it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import LimitExceeded
from alerts.promql.evaluator import evaluate_range
from alerts.promql.series import Series
from alerts.promql.syntax.parser import parse
from alerts.rules import loader
from controlplane.metrics.series import stored_samples as module
from controlplane.metrics.series.grid import Grid
from controlplane.metrics.series.scrape import ServerMetrics
from controlplane.metrics.series.service import SeriesService
from controlplane.metrics.series.stored_samples import StoredSamples, decode, encode, stored_names
from tests.drivers import BEGIN
from tests.stores import StoreHarness, sqlite_harness
from tests.unit.controlplane.metrics.series.stories import STEP, Story, by_labels, named

RULES = """
groups:
- name: g
  rules:
  - {record: "fleet:up", expr: "sum(spark_streaming_query_up)"}
  - {alert: A, expr: "spark_streaming_query_up == 0"}
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as harness:
        yield harness


def samples(harness: StoreHarness, *names: str) -> StoredSamples:
    found = StoredSamples(harness.writer, harness.engine.connect, STEP)
    found.names = frozenset(names)
    return found


def same(found: list[Series], expected: list[Series]) -> bool:
    return by_labels(found) == by_labels(expected)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_is_what_the_grid_had(harness: StoreHarness, seed: int) -> None:
    """Series that come and go, saved at any times; the stale markers of series that ended too."""
    chance, grid, stored = random.Random(seed), Grid({"m": 86400.0}, STEP), samples(harness, "m")
    present, at, saved = set[int](), BEGIN, BEGIN
    for _ in range(200):
        at += STEP
        present ^= {chance.randrange(6)} if chance.random() < 0.3 else set()
        grid.put(at, [("m", {"n": str(n)}, chance.choice([0.0, 1.0, chance.random()])) for n in present])
        if chance.random() < 0.05:
            stored.save(grid, grid.oldest, at)
            saved = at
    for _ in range(50):
        start, end = sorted(BEGIN + chance.random() * (saved - BEGIN) for _ in range(2))
        chosen = [*named("m"), Matcher("n", "=~", chance.choice(["0", "1|2", ".*"]))]
        assert same(stored.read("m", chosen, start, end), grid.select(chosen, start, end))


def test_a_blob_keeps_every_bit() -> None:
    values = np.array([[1.0, -0.0, 1e308, np.nan], [5e-324, 5e-324, 2.5, 3.0]])
    step, labels, found = decode(encode(15.0, [{"a": "1"}, {"a": "ü"}], values))
    assert (step, labels) == (15.0, [{"a": "1"}, {"a": "ü"}])
    assert found.tobytes() == values.tobytes()


def test_too_many_values_are_refused_with_a_message(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, stored = Grid({"m": 3600.0}, STEP), samples(harness, "m")
    for n in range(1, 9):
        grid.put(BEGIN + n * STEP, [("m", {"n": str(k)}, 1.0) for k in range(4)])
    stored.save(grid, grid.oldest, BEGIN + 8 * STEP)
    monkeypatch.setattr(module, "MAX_READ_VALUES", 20)
    with pytest.raises(LimitExceeded, match="stored series are too many"):
        stored.read("m", named("m"), BEGIN, BEGIN + 600)


def test_names_of_recorded_series_alerts_agents_and_the_server_are_stored() -> None:
    groups, _ = loader.load(RULES)
    names = stored_names(groups)
    assert {"fleet:up", "ALERTS", "ALERTS_FOR_STATE", "controlplane_agents"} < names
    assert "spark_streaming_driver_heap_bytes" in names
    assert "spark_streaming_query_up" not in names and "A" not in names


# -- in the service --------------------------------------------------------------------------------


class Server:
    """The story's series with a store behind them; `restart` forgets the grid."""

    def __init__(self, story: Story):
        self.story, self.harness = story, story.harness
        self.service = self.restart()

    def restart(self) -> SeriesService:
        window, clock = self.harness.window, lambda: self.harness.now
        reading = self.harness.engine.connect
        stored = StoredSamples(self.harness.writer, reading, STEP)
        self.service = SeriesService(
            window, self.story.verdicts, clock, ServerMetrics, reading, self.story.folder, STEP, stored=stored
        )
        self.service.keep_for(loader.load(RULES)[0])
        self.story.service = self.service
        return self.service

    def points(self, text: str, start: float) -> tuple[int, list[str]]:
        """Points of a range query to now, and its warnings."""
        notes: list[str] = []
        now = self.harness.now
        found = evaluate_range(parse(text), self.service.source(now, notes), start, now, STEP)
        return sum(len(series.values) for series in found), notes


def test_series_that_no_rule_reads_have_a_past_from_the_start(tmp_path: Path, harness: StoreHarness) -> None:
    server = Server(Story(harness, tmp_path))
    server.service.record("g", [Series({"__name__": "fleet:up"}, np.array([BEGIN]), np.array([1.0]))])
    server.story.go_to(BEGIN + 600)
    assert server.points("controlplane_agents", BEGIN + STEP) == (40, [])
    assert server.points("fleet:up", BEGIN + STEP) == (40, [])


def test_the_past_is_there_after_the_grid_has_dropped_it(tmp_path: Path, harness: StoreHarness) -> None:
    server = Server(Story(harness, tmp_path))
    server.story.go_to(BEGIN + 600)
    server.service.save()
    (tmp_path / "series.npz").unlink()
    server.restart()
    server.story.go_to(BEGIN + 1200)
    assert server.points("controlplane_agents", BEGIN + STEP) == (80, [])
    assert server.points("count_over_time(controlplane_agents[20m])", BEGIN + 1200)[0] == 1


def test_what_is_not_stored_comes_with_a_warning(tmp_path: Path, harness: StoreHarness) -> None:
    server = Server(Story(harness, tmp_path))
    server.story.go_to(BEGIN + 600)
    server.service.save()
    (tmp_path / "series.npz").unlink()
    server.restart()
    _, (note,) = server.points("controlplane_agents", BEGIN - 3600)
    assert note.startswith("controlplane_agents is stored since 20") and note.endswith(
        "earlier times are missing"
    )
    _, (note,) = server.points("spark_streaming_batch_age_seconds", BEGIN)
    assert "is not stored: only its current value is known" in note
    assert server.points("no_such_metric", BEGIN - 3600) == (0, [])
