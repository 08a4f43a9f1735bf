"""A stretch longer than the retention, over the seam of lake and store: what the store alone would have reported of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alerts.promql.evaluator import evaluate_range
from alerts.promql.series import SeriesSource
from alerts.promql.syntax.parser import parse
from controlplane.history.archive import Archive
from controlplane.history.federated_series import COARSE_STEP_SECONDS, FederatedSeries, SeriesBackends
from controlplane.metrics.series import replay as replays
from controlplane.metrics.series.replay import SeriesReplay
from tests.drivers import BEGIN, Driver
from tests.stores import sqlite_harness
from tests.unit.controlplane.history.lakes import forget, moved_to

DAY = 86400.0
#: Of the store's runs and of its events.
RETENTION, HOT, ALL = 14 * DAY, 3 * DAY, 17 * DAY
SAME = (
    "spark_streaming_batches_total",
    "spark_streaming_input_rows_total",
    "sum(increase(spark_streaming_batches_total[2h]))",
    "avg_over_time(spark_streaming_batch_duration_seconds[1h])",
    "spark_streaming_state_rows",
)
Values = dict[str, dict[float, float]]


def reported(source: SeriesSource, expression: str, start: float, end: float) -> Values:
    found = evaluate_range(parse(expression), source, start, end, 3600.0)
    return {
        str(sorted(item.labels.items())): dict(zip(item.times.tolist(), item.values.tolist(), strict=True))
        for item in found
    }


def test_counters_and_gauges_go_over_the_seam_as_if_it_were_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "MAX_POINTS", 10**6)
    with sqlite_harness(tmp_path) as harness:
        now = harness.now = BEGIN + ALL
        driver = Driver()
        lines = [driver.started("q", "r", at=BEGIN)]
        for number in range(int(ALL / 1500)):  # never at a full step of the grid
            at, took = BEGIN + 7 + number * 1500.0, 100 + number * 37 % 900
            lines.append(driver.progress("q", "r", number, at, batchDuration=took, numInputRows=number % 50))
        harness.accept(*lines)
        replay = SeriesReplay(harness.engine.connect, harness.window, lambda: now, 15.0)
        start = BEGIN + 3600
        before = {item: reported(replay.over(None, COARSE_STEP_SECONDS), item, start, now) for item in SAME}
        up = reported(replay.over(None, COARSE_STEP_SECONDS), "spark_streaming_query_up", start, now)
        commit = moved_to(harness, tmp_path / "lake", now - HOT)
        assert forget(harness, now - HOT, commit.facts["until"]) > 800
        archive = Archive(str(tmp_path / "lake"))
        parts = SeriesBackends(
            replay.over(archive),
            replay.over(archive, COARSE_STEP_SECONDS),
            archive,
            harness.window,
            harness.engine.connect,
            RETENTION,
        )
        for item in SAME:
            [(labels, held)] = reported(FederatedSeries(parts, now), item, start, now).items()
            [(known, values)] = before[item].items()
            assert (labels, list(held)) == (known, list(values)), item
            assert np.allclose(list(held.values()), list(values.values()), rtol=1e-9), item
        source = FederatedSeries(parts, now)
        [later] = reported(source, "spark_streaming_query_up", start, now).values()
        [all] = up.values()
        # Runs outlive their events: of them the store reports as far back as its retention.
        assert later == {at: value for at, value in all.items() if at >= now - RETENTION}
        assert "query_up is not available before" in source.notes[0]
