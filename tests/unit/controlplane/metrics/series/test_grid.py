"""The grid holds what a Prometheus that scrapes us would: checked against a model too simple to be wrong."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.matching.labels import Matcher
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import STALE, Series, SeriesInMemory, is_stale
from alerts.promql.syntax.parser import parse
from controlplane.metrics.series.grid import Grid, NamedSample

STEP = 15.0
KEPT = 150.0  # seconds: eleven slots
Samples = dict[float, float | str]


def comparable(value: float) -> float | str:
    return "NaN" if math.isnan(value) else value


class Model:
    """Every scrape as it was; a series is absent where a scrape does not have it."""

    def __init__(self, kept: float):
        self.kept, self.scrapes = kept, dict[float, dict[tuple[str, frozenset[tuple[str, str]]], float]]()

    def put(self, at: float, reported: Sequence[NamedSample]) -> None:
        scrape = self.scrapes[at] = {}
        for name, labels, value in reported:
            scrape.setdefault((name, frozenset((k, v) for k, v in labels.items() if v)), value)

    def select(self, name: str, start: float, end: float) -> dict[frozenset[tuple[str, str]], Samples]:
        slots = math.ceil((self.kept + STEP) / STEP)
        held = [at for at in sorted(self.scrapes) if at > max(self.scrapes) - slots * STEP]
        found: dict[frozenset[tuple[str, str]], Samples] = {}
        for labels in {key[1] for at in held for key in self.scrapes[at] if key[0] == name}:
            samples, there = Samples(), False
            for at in held:
                value = self.scrapes[at].get((name, labels))
                if start < at <= end and (value is not None or there):
                    samples[at] = "ended" if value is None else comparable(value)
                there = value is not None
            if samples:
                found[labels] = samples
        return found


def as_samples(series: Series) -> Samples:
    ended = is_stale(series.values).tolist()
    values = [
        "ended" if over else comparable(v) for v, over in zip(series.values.tolist(), ended, strict=True)
    ]
    return dict(zip(series.times.tolist(), values, strict=True))


def named(name: str, *others: Matcher) -> list[Matcher]:
    return [Matcher("__name__", "=", name), *others]


label_sets = st.fixed_dictionaries({"query": st.sampled_from("abcd")}, optional={"team": st.just("")})
values = st.sampled_from([0.0, 1.0, 2.5, math.nan, math.inf])
tellings = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), label_sets, values), max_size=8)
#: Some slots are left out, some come again, some come late.
scrapes = st.lists(st.tuples(st.integers(0, 40), tellings), max_size=25)


@given(scrapes, st.integers(-2, 42), st.integers(-2, 42))
@settings(max_examples=150, deadline=None)
def test_a_selection_equals_that_of_a_model_which_keeps_every_scrape(
    reported: list[tuple[int, list[NamedSample]]], first: int, last: int
) -> None:
    grid, models = Grid({"x": KEPT, "y": KEPT}, STEP), {"x": Model(KEPT), "y": Model(KEPT)}
    newest = -1
    for slot, samples in reported:
        newest = max(newest, slot)
        grid.put(slot * STEP, samples)
        for model in models.values():
            if slot * STEP > newest * STEP - 11 * STEP:
                model.put(slot * STEP, samples)
    start, end = first * STEP - 7.0, last * STEP + 1.0
    for name, model in models.items():
        found = grid.select(named(name), start, end)
        ours = {
            frozenset((k, v) for k, v in s.labels.items() if k != "__name__"): as_samples(s) for s in found
        }
        expected = model.select(name, start, end)
        assert ours.keys() == expected.keys()
        for labels, samples in expected.items():
            np.testing.assert_array_equal(list(ours[labels].items()), list(samples.items()))


@given(scrapes)
@settings(max_examples=30, deadline=None)
def test_expressions_over_the_grid_are_what_they_are_over_the_same_samples_in_memory(
    reported: list[tuple[int, list[NamedSample]]],
) -> None:
    grid = Grid({"x": 3600.0, "y": 3600.0}, STEP)
    for slot, samples in reported:
        grid.put(slot * STEP, samples)
    same = SeriesInMemory(grid.select([], -1.0, 1e9))
    for text in (
        "x",
        "sum by (query) (x)",
        "max_over_time(x[2m])",
        "x offset 1m",
        "x unless y",
        "rate(y[5m])",
    ):
        node = parse(text)
        assert str(evaluate(node, grid, 600.0)) == str(evaluate(node, same, 600.0)), text
        ours, theirs = (evaluate_range(node, item, 0.0, 700.0, 20.0) for item in (grid, same))
        assert sorted(map(str, ours)) == sorted(map(str, theirs)), text


def test_what_ended_is_not_there_any_more_although_the_look_back_is_minutes() -> None:
    grid = Grid({"up": 600.0}, STEP)
    grid.put(0.0, [("up", {"query": "a"}, 1.0), ("up", {"query": "b"}, 1.0)])
    grid.put(15.0, [("up", {"query": "b"}, 1.0)])
    assert [sample.labels["query"] for sample in evaluate(parse("up"), grid, 15.0)] == ["b"]
    assert len(evaluate(parse("up"), grid, 14.0)) == 2


def test_an_unsampled_slot_ends_no_series() -> None:
    grid = Grid({"up": 600.0}, STEP)
    grid.put(0.0, [("up", {}, 1.0)])
    grid.put(60.0, [("up", {}, 2.0)])
    (series,) = grid.select(named("up"), -1.0, 100.0)
    assert as_samples(series) == {0.0: 1.0, 60.0: 2.0}


def test_a_mark_stands_once_and_the_series_may_come_back() -> None:
    grid = Grid({"up": 600.0}, STEP)
    for slot, samples in enumerate([[1.0], [], [], [2.0]]):
        grid.put(slot * STEP, [("up", {}, value) for value in samples])
    (series,) = grid.select(named("up"), -1.0, 100.0)
    assert series.times.tolist() == [0.0, 15.0, 45.0]
    assert is_stale(series.values).tolist() == [False, True, False]


def test_the_mark_is_reported_to_those_who_look_only_at_its_own_slot() -> None:
    grid = Grid({"up": 600.0}, STEP)
    grid.put(0.0, [("up", {}, 1.0)])
    grid.put(15.0, [])
    (series,) = grid.select(named("up"), 0.0, 15.0)
    assert series.values.view(np.uint64).tolist() == [STALE.view(np.uint64)]


def test_what_is_selected_does_not_change_when_the_grid_does() -> None:
    grid = Grid({"x": 15.0}, STEP)
    grid.put(0.0, [("x", {}, 1.0)])
    (before,) = grid.select(named("x"), -1.0, 0.0)
    for slot in range(1, 9):
        grid.put(slot * STEP, [("x", {}, 9.0)])
    assert before.values.tolist() == [1.0]


def test_series_beyond_the_most_are_refused_and_counted_and_their_neighbours_go_on() -> None:
    grid = Grid({"x": 60.0, "y": 60.0}, STEP, max_series=3)
    grid.put(0.0, [("x", {"n": "1"}, 1.0), ("y", {"n": "1"}, 1.0)])
    grid.put(15.0, [("x", {"n": str(n)}, 2.0) for n in (9, 8, 7, 1)] + [("y", {"n": "1"}, 2.0)])
    assert (grid.series_count, grid.refused) == (3, 2)
    assert {s.labels["n"] for s in grid.select(named("x"), 0.0, 15.0)} == {"1", "9"}
    assert as_samples(grid.select(named("y"), 0.0, 15.0)[0]) == {15.0: 2.0}


def test_the_row_of_a_series_that_ended_long_ago_is_reused() -> None:
    grid = Grid({"x": 30.0}, STEP, max_series=1)
    for slot in range(6):
        grid.put(slot * STEP, [("x", {"n": "new" if slot > 3 else "old"}, float(slot))] if slot != 1 else [])
    assert (grid.series_count, grid.refused) == (1, 2)  # in each of two scrapes
    for slot in range(6, 8):
        grid.put(slot * STEP, [("x", {"n": "new"}, 1.0)])
    (series,) = grid.select(named("x"), -1.0, 1e6)
    assert series.labels["n"] == "new" and series.times.tolist() == [90.0, 105.0]


def test_series_that_come_and_go_take_no_more_memory_than_those_that_live_at_a_time() -> None:
    grid = Grid({"x": 60.0}, STEP)
    for slot in range(500):
        grid.put(slot * STEP, [("x", {"run": str(slot)}, 1.0)])
    assert grid.series_count == 5
    assert grid.bytes <= 16 * 5 * 8


def test_a_label_set_that_is_reported_twice_keeps_its_first_value() -> None:
    grid = Grid({"x": 60.0}, STEP)
    grid.put(0.0, [("x", {"a": "b"}, 1.0), ("x", {"a": "b", "empty": ""}, 2.0)])
    (series,) = grid.select(named("x"), -1.0, 0.0)
    assert series.values.tolist() == [1.0] and series.labels == {"__name__": "x", "a": "b"}
    assert grid.duplicates == 1


def test_metrics_without_a_reader_are_dropped() -> None:
    grid = Grid({"x": 60.0}, STEP)
    grid.put(0.0, [("x", {}, 1.0), ("y", {}, 1.0)])
    assert grid.select(named("y"), -1.0, 0.0) == [] and grid.series_count == 1


def test_other_rules_keep_what_stays_and_forget_the_rest() -> None:
    grid = Grid({"x": 60.0, "y": 60.0}, STEP)
    for slot in range(20):
        grid.put(slot * STEP, [("x", {"n": str(slot // 19)}, slot), ("y", {}, 1.0)])
    grid.keep({"x": 30.0, "z": 60.0})
    assert grid.names == {"x", "z"}
    found = {s.labels["n"]: as_samples(s) for s in grid.select(named("x"), -1.0, 1e6)}
    assert list(found["0"]) == [255.0, 270.0, 285.0] and found["1"] == {285.0: 19.0}
    grid.keep({"x": 120.0})
    grid.put(300.0, [("x", {"n": "1"}, 20.0)])
    assert grid.oldest("x") == 255.0
    assert grid.oldest("z") is None


def test_the_oldest_time_is_that_after_the_last_hole() -> None:
    grid = Grid({"x": 3600.0}, STEP)
    for slot in (1, 2, 3, 50, 52, 55):
        grid.put(slot * STEP, [])
    assert grid.oldest("x") == 50 * STEP


def test_matchers_choose_by_name_and_by_labels_also_after_new_series_came() -> None:
    grid = Grid({"x_a": 60.0, "x_b": 60.0}, STEP)
    both = [Matcher("__name__", "=~", "x_.*"), Matcher("team", "!=", "core")]
    assert grid.select(both, -1.0, 0.0) == []
    for slot, team in enumerate(["core", "data", "web"]):
        grid.put(slot * STEP, [("x_a", {"team": team}, 1.0), ("x_b", {"team": team}, 1.0)])
        found = grid.select(both, slot * STEP - 1, slot * STEP)
        assert [s.labels.get("team") for s in found if not is_stale(s.values)[-1]] == [team] * 2 * (slot > 0)


def test_a_time_off_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of the step"):
        Grid({"x": 60.0}, STEP).put(7.0, [])


def test_those_who_select_while_another_puts_see_whole_scrapes() -> None:
    grid, reported, wrong = Grid({"x": 3000.0}, STEP), [("x", {"n": str(n)}, 0.0) for n in range(50)], []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            lengths = {len(series.times) for series in grid.select(named("x"), -1.0, 1e9)}
            if len(lengths) > 1:
                wrong.append(lengths)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for slot in range(150):
        grid.put(slot * STEP, reported)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
