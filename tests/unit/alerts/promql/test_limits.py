"""The deadline of an evaluation holds in the loops of sources and functions, and ends what nobody waits for."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

import pytest

from alerts.matching.labels import Matcher
from alerts.promql import limits as module
from alerts.promql.errors import LimitError, LimitExceeded
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.limits import TICK_EVERY, EvaluationBudget, Limits, paced
from alerts.promql.series import Series, SeriesInMemory, series_of
from alerts.promql.syntax.parser import parse


class Endless:
    """A source that never stops to look for series; the client leaves as soon as it begins."""

    def __init__(self) -> None:
        self.begun = False
        self.rounds = 0

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        self.begun = True
        for _ in paced(itertools.count()):
            self.rounds += 1
        raise AssertionError


def test_a_loop_of_a_source_ends_with_the_evaluation() -> None:
    for ask in (
        lambda source, limits: evaluate(parse('{app=~"a.*"}'), source, 0.0, limits=limits),
        lambda source, limits: evaluate_range(parse("sum(x)"), source, 0.0, 9.0, 1.0, limits=limits),
    ):
        source = Endless()
        with pytest.raises(LimitError, match="closed the connection"):
            ask(source, Limits(abandoned=lambda: source.begun))  # noqa: B023
        assert source.rounds <= TICK_EVERY


def test_the_deadline_holds_in_every_round() -> None:
    now = iter(range(100))
    budget = EvaluationBudget(Limits(seconds=5.0), lambda: float(next(now)))
    rounds = itertools.count()
    with budget.current(), pytest.raises(LimitExceeded, match="took longer than 5 s"):
        deque((next(rounds) for _ in paced(itertools.count())), maxlen=0)
    assert next(rounds) == 5 * TICK_EVERY


def test_without_an_evaluation_a_loop_runs_to_its_end() -> None:
    assert list(paced(range(3000))) == list(range(3000))


@pytest.mark.parametrize(
    "text",
    [
        'count_values("value", x)',
        "x + on (n) group_left (m) x",
        'label_replace(x, "a", "$1", "n", "(.*)")',
        "histogram_quantile(0.5, x)",
        "info(x)",
    ],
)
def test_every_long_loop_of_a_function_looks_at_the_deadline(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TICK_EVERY", 8)
    source = SeriesInMemory(
        series_of({"__name__": "x", "n": str(n), "m": "m", "le": "+Inf"}, {10.0: float(n)}) for n in range(64)
    )

    def checks(expression: str) -> int:
        made = itertools.count()
        limits = Limits(abandoned=lambda: next(made) < 0)
        evaluate(parse(expression), source, 10.0, limits=limits)
        return next(made)

    assert checks(text) >= text.count("x)") * checks("x") + 64 // 8
