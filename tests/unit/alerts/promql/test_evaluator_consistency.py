"""Expressions by chance, without a peer: a range query is what instant queries at its steps would say."""

from __future__ import annotations

import numpy as np
import pytest

from alerts.promql.errors import EvaluationError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import STALE, Series, SeriesInMemory
from alerts.promql.syntax.parser import parse
from tests.unit.alerts.promql.agreement import Answer, differences, ours
from tests.unit.alerts.promql.questions import Questions
from tests.unit.alerts.promql.specimens import BEGIN, specimens

STEPS = [BEGIN + 307.0 + 411.0 * i for i in range(5)]
CHANCE = 150


def with_marks(series: list[Series]) -> list[Series]:
    """Some samples of some series made marks of an end."""
    random = np.random.default_rng(3)
    return [
        Series(
            each_series.labels,
            each_series.times,
            np.where(random.random(len(each_series.times)) < 0.05, STALE, each_series.values),
        )
        for each_series in series
    ]


SOURCES = {"as they are": specimens(), "with gaps": with_marks(specimens()), "none": []}


def refused(text: str, source: SeriesInMemory) -> bool:
    try:
        evaluate_range(parse(text), source, STEPS[0], STEPS[-1], STEPS[1] - STEPS[0])
    except EvaluationError:
        return True
    return False


def step_by_step(text: str, source: SeriesInMemory) -> Answer:
    joined: Answer = {}
    for at in STEPS:
        for key, values in ours(evaluate(parse(text), source, at), at).items():
            joined.setdefault(key, {}).update(values)
    return joined


@pytest.mark.parametrize("kind", SOURCES)
def test_each_step_of_a_range_query_is_an_instant_query(kind: str) -> None:
    source = SeriesInMemory(SOURCES[kind])
    found: dict[str, list[str]] = {}
    for seed in range(CHANCE):
        text = Questions(10_000 + seed).vector(seed % 4)
        if "start()" in text or "end()" in text or refused(text, source):
            continue  # the ends of the two kinds of queries differ
        whole = evaluate_range(parse(text), source, STEPS[0], STEPS[-1], STEPS[1] - STEPS[0])
        if lines := differences(ours(whole, 0.0), step_by_step(text, source)):
            found[text] = lines[:3]
    assert found == {}
