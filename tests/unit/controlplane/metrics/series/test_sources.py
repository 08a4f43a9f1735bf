"""The values of this moment over the grid, and the store behind it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import LimitError, OperationError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.limits import TICK_EVERY, Limits
from alerts.promql.series import Series, is_stale, series_of
from alerts.promql.syntax.parser import parse
from controlplane.metrics.series.grid import Grid, NamedSample
from controlplane.metrics.series.sources import GridWithHistory, LiveSource, Wanted
from tests.unit.controlplane.metrics.series.stories import named

STEP = 15.0
NOW = 100.0


def grid() -> Grid:
    """x: a since 0, b until 75; the newest slot is at 90."""
    grid = Grid({"x": 600.0}, STEP)
    for slot in range(7):
        grid.put(slot * STEP, [("x", {"n": n}, float(slot)) for n in "ab" if n == "a" or slot < 6])
    return grid


class Reported_:
    """Live values, and who asked for which."""

    def __init__(self, *reported: NamedSample):
        self.reported, self.asked = reported, list[Wanted]()

    def __call__(self, wanted: Wanted) -> list[NamedSample]:
        self.asked.append(wanted)
        return [item for item in self.reported if wanted is None or item[0] in wanted]


class Past:
    """A store that knows x{n="a"} and x{n="c"} from -1000 on, and reports what it was asked."""

    def __init__(self) -> None:
        self.asked = list[tuple[float, float]]()

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
        if not any(m.name == "__name__" for m in matchers):
            raise OperationError("name the metric")
        self.asked.append((start, end))
        times = [t for t in range(-990, 91, 15) if start < t <= end]
        return [series_of({"__name__": "x", "n": n}, dict.fromkeys(times, -1.0)) for n in "ac"]


def test_the_values_of_this_moment_stand_at_the_end() -> None:
    live = LiveSource(grid(), NOW, Reported_(("x", {"n": "a"}, 50.0), ("x", {"n": "d"}, 60.0)))
    found = {item.labels["n"]: item for item in live.select(named("x"), 60.0, NOW)}
    assert found["a"].times.tolist() == [75.0, 90.0, NOW] and found["a"].values[-1] == 50.0
    assert found["d"].times.tolist() == [NOW]
    assert {s.labels["n"]: s.value for s in evaluate(parse("x"), live, NOW)} == {"a": 50.0, "d": 60.0}


@pytest.mark.parametrize("fraction", [0.0004, 0.0006, 0.1234567, 0.9999999])
def test_an_evaluation_between_two_milliseconds_reads_the_live_values(fraction: float) -> None:
    now = NOW + fraction
    live = LiveSource(grid(), now, Reported_(("x", {"n": "a"}, 50.0)))
    assert {s.labels["n"]: s.value for s in evaluate(parse("x"), live, now)} == {"a": 50.0}


def test_a_series_without_a_value_now_is_marked_as_ended_once() -> None:
    found = {
        item.labels["n"]: item for item in LiveSource(grid(), NOW, Reported_()).select(named("x"), 60.0, NOW)
    }
    assert found["a"].times.tolist() == [75.0, 90.0, NOW] and is_stale(found["a"].values)[-1]
    assert found["b"].times.tolist() == [75.0, 90.0], "it had ended in the grid already"


def test_the_value_of_this_moment_takes_the_place_of_the_slot_at_the_same_time() -> None:
    live = LiveSource(grid(), 90.0, Reported_(("x", {"n": "a"}, 50.0)))
    (series,) = live.select(named("x", n="a"), 75.0, 90.0)
    assert series.times.tolist() == [90.0] and series.values.tolist() == [50.0]


def test_live_values_are_computed_once_a_metric_and_only_for_the_present() -> None:
    reported = Reported_(("x", {"n": "a"}, 50.0), ("y", {}, 1.0))
    live = LiveSource(grid(), NOW, reported)
    live.select(named("x"), 0.0, NOW - 1)
    live.select(named("x"), NOW, NOW + 50)
    assert reported.asked == []
    for _ in range(3):
        live.select(named("x"), 0.0, NOW)
        live.select(named("y"), 0.0, NOW)
    assert reported.asked == [{"x"}, {"y"}]
    assert len(live.select([Matcher("n", "=", "a")], 0.0, NOW)) == 1


def test_times_before_the_grid_come_from_the_store_and_join_without_a_seam() -> None:
    past = Past()
    joined = GridWithHistory(grid(), past, NOW)
    found = {item.labels["n"]: item for item in joined.select(named("x"), -100.0, NOW)}
    assert found["a"].times.tolist() == [float(t) for t in range(-90, 91, 15)]
    assert found["a"].values.tolist() == [-1.0] * 6 + [float(n) for n in range(7)]
    assert past.asked == [(-100.0, -15.0)]
    assert is_stale(found["c"].values)[-1] and found["c"].times[-1] == 0.0, "the grid does not have it"


def test_the_store_is_not_asked_for_what_the_grid_holds() -> None:
    past = Past()
    GridWithHistory(grid(), past, NOW).select(named("x"), -STEP, NOW)
    assert past.asked == []


def test_a_range_that_the_grid_holds_is_read_as_columns_and_gives_the_same() -> None:
    past, held = Past(), grid()
    source = LiveSource(GridWithHistory(held, past, NOW), NOW, Reported_())
    columns = source.dense(named("x"), -STEP, 90.0)
    assert columns is not None and columns.values.shape == (7, 2)
    found, same = (
        {s.labels["n"]: s.values.tolist() for s in evaluate_range(node, asked, 60.0, 90.0, STEP)}
        for node in [parse("max_over_time(x[1m])")]
        for asked in (source, held)
    )
    assert found == same == {"a": [4.0, 5.0, 6.0], "b": [4.0, 5.0, 5.0]}
    assert past.asked == []
    for beyond in ((-100.0, 90.0), (0.0, NOW)):
        assert source.dense(named("x"), *beyond) is None, "history and the present are not in the grid"
    assert source.dense([Matcher("n", "=", "a")], 0.0, 90.0) is None


def test_what_the_grid_does_not_keep_comes_from_the_store_alone() -> None:
    past = Past()
    assert len(GridWithHistory(Grid({"y": 60.0}), past, NOW).select(named("x"), 0.0, NOW)) == 2
    assert past.asked == [(0.0, NOW)]


def test_a_selector_without_a_name_finds_the_recent_past_and_is_refused_beyond() -> None:
    joined = GridWithHistory(grid(), Past(), NOW)
    assert len(joined.select([Matcher("n", "=", "a")], NOW - 300, NOW)) == 1
    with pytest.raises(OperationError, match="name the metric"):
        joined.select([Matcher("n", "=", "a")], NOW - 3600, NOW)


def test_a_selector_of_few_metrics_finds_each_of_them_in_the_past() -> None:
    joined = GridWithHistory(grid(), Past(), NOW)
    alike = Matcher("__name__", "=~", "x|nothing")
    found, same = (
        [(s.labels, s.times.tolist()) for s in joined.select(asked, NOW - 3600, NOW)]
        for asked in ([alike, Matcher("n", "=", "a")], named("x", n="a"))
    )
    assert found == same and found


def test_a_search_through_all_live_values_ends_when_nobody_waits_for_it() -> None:
    begun = list[int]()

    def endless(_: Wanted) -> Iterator[NamedSample]:
        for number in itertools.count():
            begun.append(number)
            yield "x", {"n": str(number)}, 1.0

    source = LiveSource(grid(), NOW, endless)
    with pytest.raises(LimitError, match="closed the connection"):
        evaluate(parse('{n=~"nobody.*"}'), source, NOW, limits=Limits(abandoned=lambda: len(begun) > 1))
    assert len(begun) <= TICK_EVERY + 1
