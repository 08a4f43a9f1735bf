"""Evaluation over arrays equals that over series, to the last bit, and sharing results between rules changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from alerts.matching.labels import Labels, Matcher
from alerts.promql.dense import REDUCTIONS, DenseSeries
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.functions.over_time import OVER_TIME
from alerts.promql.label_sets import LabelColumn, LabelSets
from alerts.promql.series import METRIC_NAME, STALE, Floats, Sample, Series, SeriesInMemory, Vector
from alerts.promql.shared_results import SharedResults
from alerts.promql.syntax.parser import parse

STEP, SLOTS, END = 15.0, 60, 900.0
PARAMETERS = {
    "quantile_over_time": "0.3, {}",
    "predict_linear": "{}, 60",
    "double_exponential_smoothing": "{}, 0.3, 0.6",
}
FUNCTIONS = [
    f"{name}({PARAMETERS.get(name, '{}').format(selector)})"
    for name in OVER_TIME
    for selector in ("x[2m]", "y[10m] offset 1m")
]
OTHERS = [
    "x",
    "x offset 30s",
    'x{q!="q1"} > 3',
    "timestamp(x)",
    "x * on (q) group_left () sum by (q) (y)",
    "sum without (part, app) (x) / on (q) count by (q) (y)",
    "x and on (q) (y > 2) unless on (q) rate(x[1m]) > 5 or y",
    "-x + 2 * x == bool 3",
    "topk by (app) (2, x)",
    "max_over_time(rate(x[1m])[5m:30s])",
    "absent_over_time(x[5m])",
    'count by (q) ({__name__=~"x|y"})',
]


class Arrays:
    """Series of the metrics x and y at every slot, some with gaps; also as a plain source."""

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        self.label_sets = LabelSets()
        #: What is asked of this source as an array.
        self.dense_reads = 0
        self._times = np.arange(1, SLOTS + 1) * STEP
        self._values: dict[str, Floats] = {}
        self._labels: list[Labels] = [
            {"app": f"a{n % 3}", "q": f"q{n // 2}", "part": f"p{n % 2}"} for n in range(8)
        ]
        for name in ("x", "y"):
            values = random.choice([0.0, 1.0, 2.5, 3.1, 1e9, -4.0, 1e-3], (SLOTS, 8))
            values[:, 4:] = np.cumsum(random.integers(0, 4, (SLOTS, 4)), axis=0) / 3
            values[20:25, 5] = 0.0  # a reset
            values[random.random((SLOTS, 8)) < (0.2 if seed % 2 else 0.0)] = np.nan
            values[: random.integers(0, SLOTS), 1] = values[-3:, 2] = np.nan
            self._values[name] = values

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        name = next((m.value for m in matchers if m.name == METRIC_NAME and m.operator == "="), None)
        if name is None:
            return None
        self.dense_reads += 1
        first, last = np.searchsorted(self._times, [start, end], side="right")
        before = int(0 < first < last)
        rows = slice(first - before, last)
        labels = LabelColumn.of(({METRIC_NAME: name, **own} for own in self._labels), self.label_sets)
        chosen = labels.matching(tuple(m for m in matchers if m.name != METRIC_NAME))
        times = self._times[rows]
        return DenseSeries(labels.take(chosen), times, self._values[name][rows][:, chosen], before)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        return self.plain().select(matchers, start, end)

    def plain(self) -> SeriesInMemory:
        return SeriesInMemory(
            self._series(name, number, own)
            for name in self._values
            for number, own in enumerate(self._labels)
        )

    def _series(self, name: str, number: int, own: Labels) -> Series:
        times, values, there = [], [], False
        for time, value in zip(self._times, self._values[name][:, number], strict=True):
            if there or not np.isnan(value):
                times.append(time)
                values.append(STALE if np.isnan(value) else value)
            there = not np.isnan(value)
        return Series({METRIC_NAME: name, **own}, np.array(times), np.array(values, float))


def exactly(found: object) -> object:
    if isinstance(found, Vector):
        return sorted((sorted(s.labels.items()), np.float64(s.value).tobytes()) for s in found)
    assert isinstance(found, list)
    return sorted((sorted(s.labels.items()), s.times.tobytes(), s.values.tobytes()) for s in found)


@pytest.mark.parametrize("seed", [0, 1])
def test_arrays_give_what_series_give(seed: int) -> None:
    arrays = Arrays(seed)
    plain = arrays.plain()
    for text in [*FUNCTIONS, *OTHERS]:
        node = parse(text)
        for at in (END, END - 7.0, 3 * STEP, STEP / 2):
            ours, theirs = (evaluate(node, source, at, 60.0) for source in (arrays, plain))
            assert exactly(ours) == exactly(theirs), f"{text} at {at}"
        ours, theirs = (evaluate_range(node, source, 0.0, END, 40.0, 60.0) for source in (arrays, plain))
        assert exactly(ours) == exactly(theirs), text
    assert arrays.dense_reads


def test_every_reduction_is_of_a_function() -> None:
    assert REDUCTIONS.keys() <= OVER_TIME.keys()


def test_values_at_a_later_time_are_one_more_slot() -> None:
    labels = LabelColumn.of([{METRIC_NAME: "x", "q": q} for q in "ab"])
    held = DenseSeries(labels, np.array([15.0, 30.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), 1)
    now = LabelColumn.of([{METRIC_NAME: "x", "q": q} for q in "bc"])
    found = held.with_last(now, 37.0, np.array([5.0, 6.0]))
    assert [own["q"] for own in found.labels] == ["a", "b", "c"]
    np.testing.assert_array_equal(found.values, [[1, 2, np.nan], [3, 4, np.nan], [np.nan, 5, 6]])
    assert [sample.tolist() for sample in found.newest().values] == [[5.0], [6.0]]
    assert (found.times.tolist(), found.before) == ([15.0, 30.0, 37.0], 1)


def test_rules_that_share_results_have_the_results_of_their_own() -> None:
    texts = [
        "x > 1 and on (q) rate(y[2m]) > 0",
        "x > 1 and on (q) rate(y[2m]) > 0 unless y > 2",
        "2 * rate(y[2m])",
        "rate(y[2m] offset 1m)",
        "rate( y [2m] )",
    ]
    arrays = Arrays(1)
    nodes = [parse(text) for text in texts]
    shared = SharedResults(nodes)
    for at in (END, END - STEP):
        shared.begin(arrays.label_sets)
        before = arrays.dense_reads
        for node in nodes:
            assert exactly(evaluate(node, arrays, at, shared=shared)) == exactly(evaluate(node, arrays, at))
        reads = arrays.dense_reads - before
        assert reads == 4 + sum(text.count("x") + text.count("y") for text in texts)


def test_results_that_read_a_metric_with_new_samples_are_forgotten() -> None:
    arrays = Arrays(0)
    nodes = [parse(text) for text in ("x + 1", "x + 1", "y + 1", "y + 1", '{q="q1"}', '{q="q1"}')]
    shared = SharedResults(nodes)
    for node in nodes:
        evaluate(node, arrays, END, shared=shared)
    (at,) = {at for _, at in shared._results}
    assert [shared.find(node, at) is not None for node in nodes] == [True] * 6
    shared.forget(frozenset({"x"}))
    assert [shared.find(node, at) is not None for node in nodes] == [False, False, True, True, False, False]


def test_a_vector_keeps_its_labels() -> None:
    (found,) = evaluate(parse('x{q="q2",part="p0"}'), Arrays(0), END)  # type: ignore[misc]
    assert found == Sample({"__name__": "x", "app": "a1", "q": "q2", "part": "p0"}, found.value)
