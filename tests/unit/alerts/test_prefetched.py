"""The source for evaluations that go forward: the same answers, and few questions behind them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from alerts.matching.labels import Matcher, parse_matchers
from alerts.prefetched import MAX_HALVINGS, PrefetchedSource
from alerts.promql.errors import LimitExceeded, OperationError
from alerts.promql.series import Series, SeriesInMemory, series_of

ENTRIES = tuple[tuple[tuple[str, str], ...], tuple[float, ...], tuple[float, ...]]


class Asked:
    """Series of 400 seconds, counting the questions; too much for it is more than `most` seconds."""

    def __init__(self, most: float = 1e9):
        chance = np.random.default_rng(7)
        self._series = SeriesInMemory(
            series_of(
                {"__name__": name, "app": app, "status": status},
                {float(t): float(chance.normal()) for t in range(400) if chance.random() > 0.3},
            )
            for name in ("m", "n")
            for app in ("x", "y")
            for status in ("failed", "lost")
        )
        self.most = most
        self.questions: list[tuple[str, float, float]] = []

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        self.questions.append((",".join(sorted(map(str, matchers))), start, end))
        if end - start > self.most:
            raise LimitExceeded("too much")
        return self._series.select(matchers, start, end)


def entries(found: Sequence[Series]) -> set[ENTRIES]:
    return {(tuple(sorted(s.labels.items())), tuple(s.times), tuple(s.values)) for s in found}


def m(text: str, name: str = "m") -> tuple[Matcher, ...]:
    return (Matcher("__name__", "=", name), *parse_matchers(text))


SELECTORS = [m(""), m('status="failed"'), m('app="x",status=~"f.*"'), m('app!="x"', "n"), m("", "none")]


def walked(source: PrefetchedSource, plain: Asked) -> None:
    """Windows of 50 seconds; in each, selectors that look back differently far."""
    for start in range(100, 400, 50):
        source.advance(start, start + 50)
        for reach in (5.0, 60.0, 20.0):
            for at in (start, start + 17, start + 50):
                for matchers in SELECTORS:
                    asked = matchers, at - reach, float(at)
                    assert entries(source.select(*asked)) == entries(plain.select(*asked))


@pytest.mark.parametrize("narrow_by", [(), ("app",)])
def test_it_answers_as_the_source_would(narrow_by: tuple[str, ...]) -> None:
    walked(PrefetchedSource(Asked(), narrow_by), Asked())


def test_a_stretch_that_is_too_much_is_asked_for_in_halves() -> None:
    walked(PrefetchedSource(Asked(most=10.0)), Asked())


def test_no_stretch_of_a_metric_is_asked_for_twice() -> None:
    behind = Asked()
    walked(PrefetchedSource(behind), Asked())
    for name in ("m", "n", "none"):
        asked = sorted((start, end) for what, start, end in behind.questions if f'"{name}"' in what)
        assert all(before[1] <= after[0] for before, after in pairwise(asked))
        assert len(asked) <= 8


def test_only_labels_that_narrow_are_handed_on() -> None:
    behind = Asked()
    source = PrefetchedSource(behind, ("app",))
    source.advance(100, 200)
    source.select(m('app="x",status="lost"'), 100, 150)
    source.select(m('app="x",status="failed"'), 100, 150)
    source.select(m('app=~"x"'), 100, 150)
    assert [what for what, _, _ in behind.questions] == ['__name__="m",app="x"', '__name__="m"']


def test_what_names_no_metric_is_asked_for_each_time() -> None:
    behind = Asked()
    source = PrefetchedSource(behind)
    source.advance(0, 100)
    for _ in range(2):
        assert len(source.select(parse_matchers('app="x"'), 0, 100)) == 4
    assert len(behind.questions) == 2


def test_a_moment_that_is_too_much_by_itself_is_stated_so() -> None:
    behind = Asked(most=0.0)
    with pytest.raises(LimitExceeded):
        PrefetchedSource(behind).select(m(""), 0.0, 100.0)
    assert len(behind.questions) == MAX_HALVINGS + 1


def test_other_refusals_come_through() -> None:
    class Refusing:
        def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
            raise OperationError("no")

    with pytest.raises(OperationError):
        PrefetchedSource(Refusing()).select(m(""), 0.0, 100.0)
