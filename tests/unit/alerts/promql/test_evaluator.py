"""The evaluator's edges: limits, arguments that make no sense, what it asks of a source, kinds of answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import EvaluationError, LimitError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.limits import Limits
from alerts.promql.series import (
    Matrix,
    Sample,
    Scalar,
    Series,
    SeriesInMemory,
    String,
    Vector,
    series_of,
)
from alerts.promql.syntax.parser import parse

MANY = SeriesInMemory(
    Series({"__name__": "x", "n": str(n)}, np.arange(0.0, 600.0, 15.0), np.full(40, float(n)))
    for n in range(20)
)


class Asked:
    """A source that holds nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        self.spans.append((start, end))
        return []


def spans(text: str, **arguments: float) -> list[tuple[float, float]]:
    source = Asked()
    evaluate(parse(text), source, 1000.0, **arguments)  # type: ignore[arg-type]
    return source.spans


def test_an_instant_selector_asks_for_its_look_back() -> None:
    assert spans("x") == [(700.0, 1000.0)]
    assert spans("x", lookback=60.0) == [(940.0, 1000.0)]


def test_a_selector_asks_for_no_more_than_its_windows() -> None:
    assert spans("rate(x[1m] offset 1m)") == [(880.0, 940.0)]
    assert spans("x @ 500 offset -10s") == [(210.0, 510.0)]
    assert spans("max_over_time(x[10m:1m])") == [(120.0, 960.0)]


def test_a_range_query_asks_once_for_all_its_steps() -> None:
    source = Asked()
    evaluate_range(parse("rate(x[1m])"), source, 1000.0, 2000.0, 10.0)
    assert source.spans == [(940.0, 2000.0)]


def test_a_subquery_without_a_step_takes_the_default_one() -> None:
    found = evaluate(parse('x{n="1"}[1m:]'), MANY, 300.0, default_step=20.0)
    assert isinstance(found, Matrix) and found[0].times.tolist() == [260.0, 280.0, 300.0]


def test_answers_have_their_content_type() -> None:
    assert evaluate(parse('x{n="3"}'), MANY, 300.0) == Vector([Sample({"__name__": "x", "n": "3"}, 3.0)])
    assert evaluate(parse("1 + 1"), MANY, 300.0) == Scalar(2.0)
    assert evaluate(parse("'a'"), MANY, 300.0) == String("a")
    assert isinstance(evaluate(parse("x[1m]"), MANY, 300.0), Matrix)
    assert isinstance(evaluate_range(parse("1"), MANY, 0.0, 60.0, 15.0), Matrix)


def test_series_may_have_times_of_their_own() -> None:
    source = SeriesInMemory(
        [
            series_of({"__name__": "x", "n": "1"}, {1.5: 1.0, 7.25: 2.0}),
            series_of({"__name__": "x", "n": "2"}, {7.0: 5.0, 7.3: 9.0}),
        ]
    )
    found = evaluate_range(parse("sum(x)"), source, 0.0, 10.0, 2.5)
    assert found[0].times.tolist() == [2.5, 5.0, 7.5, 10.0]
    assert found[0].values.tolist() == [1.0, 1.0, 11.0, 11.0]


def test_milliseconds_are_exact_at_the_edges_of_a_window() -> None:
    source = SeriesInMemory([series_of({"__name__": "x"}, {0.1: 1.0, 0.2: 2.0, 0.3: 3.0})])
    found = evaluate(parse("count_over_time(x[200ms])"), source, 0.3)
    assert found == Vector([Sample({}, 2.0)])


def test_nothing_comes_of_nothing() -> None:
    nothing = SeriesInMemory([])
    for text in (
        "x + x",
        "x and x",
        "x or x",
        "rate(x[5m])",
        "quantile_over_time(0.5, x[5m])",
        "deriv(x[5m])",
        "topk(1, x)",
        "count_values('v', x)",
        "histogram_quantile(0.5, x)",
        "sort(x)",
        "label_replace(x, 'a', 'b', 'c', 'd')",
        "max_over_time(x[5m:1m])",
    ):
        assert evaluate(parse(text), nothing, 300.0) == Vector(), text
        assert evaluate_range(parse(text), nothing, 0.0, 300.0, 60.0) == Matrix(), text


# -- limits ------------------------------------------------------------------------------------------


def refused(text: str, limits: Limits) -> LimitError:
    with pytest.raises(LimitError) as caught:
        evaluate_range(parse(text), MANY, 0.0, 600.0, 15.0, limits=limits)
    return caught.value


def test_more_points_than_allowed_are_refused() -> None:
    with pytest.raises(LimitError, match="11000 points"):
        evaluate_range(parse("x"), MANY, 0.0, 11_000.0, 1.0)
    assert evaluate_range(parse("vector(1)"), MANY, 0.0, 10_999.0, 1.0)[0].times.size == 11_000


def test_more_series_than_allowed_are_refused_with_the_place_of_the_selector() -> None:
    error = refused("sum(\n  x)", Limits(series=10))
    assert (error.line, error.column, error.message) == (2, 3, "too many series: 20, the limit is 10")


def test_more_samples_than_allowed_are_refused() -> None:
    assert "samples read: 800" in str(refused("x", Limits(samples=700)))
    assert "samples held at once: 820" in str(refused("x", Limits(samples=810)))


def test_a_subquery_of_countless_steps_is_refused() -> None:
    with pytest.raises(LimitError, match="held at once"):
        evaluate(parse("max_over_time(vector(1)[100y:1ms])"), MANY, 300.0)


def test_pairs_beyond_number_are_refused() -> None:
    error = refused("x * on () group_left () count(x)", Limits(samples=810 + 10))
    assert "samples" in error.message


def test_an_evaluation_ends_when_its_time_is_up() -> None:
    assert "longer than 0 s" in str(refused("x", Limits(seconds=0.0)))


# -- arguments ---------------------------------------------------------------------------------------


def test_steps_that_make_no_sense_are_refused() -> None:
    with pytest.raises(EvaluationError, match="step must be positive"):
        evaluate_range(parse("x"), MANY, 0.0, 1.0, 0.0)
    with pytest.raises(EvaluationError, match="before the start"):
        evaluate_range(parse("x"), MANY, 1.0, 0.0, 1.0)


def test_an_evaluation_error_has_the_position_of_the_operator() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(parse('x{n="1"}\n  + on () x'), MANY, 300.0)
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_a_chain_of_thousands_of_operands_is_evaluated() -> None:
    names = " or ".join(f'x{{n="{n}"}}' for n in range(3_000))
    found = evaluate(parse(names), MANY, 300.0)
    assert isinstance(found, Vector)
    assert sorted(sample.value for sample in found) == [float(n) for n in range(20)]


def test_an_error_in_a_chain_has_the_place_of_its_operator() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(parse("x + x + on () x + x"), MANY, 300.0)
    assert (caught.value.line, caught.value.column) == (1, 7)


def test_a_smoothed_selector_asks_for_what_follows_it_too() -> None:
    assert spans("x smoothed") == [(700.0, 1300.0)]
    assert spans("rate(x[1m] smoothed)") == [(640.0, 1300.0)]
    assert spans("rate(x[1m] anchored)") == [(640.0, 1000.0)]


def test_a_label_may_have_any_name() -> None:
    found = evaluate(parse('count_values("a-b", x{n="1"})'), MANY, 300.0)
    assert found == Vector([Sample({"a-b": "1"}, 1.0)])
    found = evaluate(parse('sum by ("a.b") (label_replace(x{n="1"}, "a.b", "$1", "n", "(.*)"))'), MANY, 300.0)
    assert found == Vector([Sample({"a.b": "1"}, 1.0)])
