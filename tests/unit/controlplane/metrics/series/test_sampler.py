"""The sampler gives at every time what is computed from nothing, and computes only what has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from alerts.matching.labels import Matcher
from alerts.promql.evaluator import evaluate
from alerts.promql.label_sets import LabelSets
from alerts.promql.series import Series, SeriesSource, Vector
from alerts.promql.syntax.parser import parse
from controlplane.metrics import samples
from controlplane.metrics.series.sampler import FleetSampler
from controlplane.model import QueryView
from tests.stores import sqlite_harness
from tests.unit.controlplane.metrics.series.stories import EVERY_METRIC, Story, busy_hour

STATUS = "spark_streaming_query_status"
LIVE = (
    STATUS,
    "spark_streaming_query_starts_total",
    "spark_streaming_source_lag_seconds",
    "controlplane_queries",
)


class Plain:
    """A source that gives series only."""

    def __init__(self, source: SeriesSource):
        self._source = source

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        return self._source.select(matchers, start, end)


def compared(story: Story, sampler: FleetSampler, sets: LabelSets, names: frozenset[str], now: float) -> int:
    views = story.harness.window.fleet()
    verdicts = story.verdicts.all(views, now)
    numbers, values = sampler.sample(views, verdicts, now, names, sets)
    ours = Counter(
        (tuple(sorted(sets.labels(number).items())), value)
        for number, value in zip(numbers.tolist(), values.tolist(), strict=True)
    )
    theirs: Counter[tuple[tuple[tuple[str, str], ...], float]] = Counter()
    for view in views:
        totals = story.harness.window.totals(view.query_id)
        for found in samples.query_samples(view, verdicts[view.query_id], now, totals, names):
            labels = {"__name__": found.metric.name, **found.labels}
            theirs[tuple(sorted(labels.items())), float(found.value)] += 1
    assert ours == theirs
    return len(numbers)


def values(source: SeriesSource, text: str, at: float) -> list[tuple[list[tuple[str, str]], float]]:
    found = evaluate(parse(text), source, at)
    assert isinstance(found, Vector)
    return sorted((sorted(sample.labels.items()), sample.value) for sample in found)


def test_samples_are_those_of_every_query_whenever_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite_harness(tmp_path) as harness:
        story, sets = Story(harness, tmp_path), LabelSets()
        every, few, lasting = (FleetSampler(harness.window.totals) for _ in range(3))
        scrape, found = story.service.scrape, []

        def scraped(at: float) -> None:
            scrape(at)
            found.append(compared(story, every, sets, EVERY_METRIC, at))
            compared(story, few, sets, frozenset({STATUS}), at)
            compared(story, lasting, sets, EVERY_METRIC - samples.TIMED_METRICS, at)

        monkeypatch.setattr(story.service, "scrape", scraped)
        busy_hour(story, 7, events=30)
        assert max(found) > 50
        now = harness.now + 3
        live = story.service.rules_source(now, live=True)
        for name in LIVE:
            for text in (name, f"max_over_time({name}[5m])", f"{name} offset 1m"):
                assert values(live, text, now) == values(Plain(live), text, now), text
        renewed: list[str] = []
        steady = samples.steady_facts

        def counted(view: QueryView, *more: Any) -> Any:
            renewed.append(view.query_id)
            return steady(view, *more)

        monkeypatch.setattr("controlplane.metrics.series.sampler.steady_facts", counted)
        steadily = frozenset({STATUS, "spark_streaming_batch_age_seconds"})
        for sampler in (few, few):
            compared(story, sampler, sets, steadily, now)
        failed = story.verdicts.all(harness.window.fleet(), now).values()
        unsteady = sum(verdict.status in ("failed", "unreachable") for verdict in failed)
        assert len(renewed) == len(harness.window.fleet()) + unsteady
