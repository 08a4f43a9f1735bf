"""What rules and queries read: the grid, the values of this moment laid over it, the store behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np

from alerts.matching.labels import Matcher, matches
from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.series import METRIC_NAME, STALE, Series, SeriesSource, is_stale
from controlplane.metrics.series.grid import Grid, NamedSample

Wanted = frozenset[str] | None


class LiveSource:
    """A source with the values at `at` added at the end; a series that has none any more is marked as ended.

    `told` gives all values at `at` of the metrics wanted (None: of all); it is asked once for each name, and
    only by those who look at that moment.
    """

    def __init__(self, source: SeriesSource, at: float, told: Callable[[Wanted], Iterable[NamedSample]]):
        self._source, self._at = source, at
        self._told = cache(lambda wanted: [_series(one, at) for one in told(wanted)])

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        held = self._source.select(matchers, start, end)
        if not start < self._at <= end:
            return held
        name = exact_name(matchers)
        told = self._told(None if name is None else frozenset({name}))
        now = {_key(one): one for one in told if matches(matchers, one.labels)}
        past = (_until(one, self._at, now.pop(_key(one), None)) for one in held)
        return [*(one for one in past if len(one.times)), *now.values()]


def _series(told: NamedSample, at: float) -> Series:
    name, labels, value = told
    return Series({METRIC_NAME: name, **labels}, np.array([at], float), np.array([value], float))


def _until(held: Series, at: float, now: Series | None) -> Series:
    """What was before `at`, then the value at `at`, or the mark that there is none."""
    before = held.times < at
    times, values = held.times[before], held.values[before]
    if now is None and (not len(values) or is_stale(values[-1:])[0]):
        return Series(held.labels, times, values)
    value = now.values if now is not None else [STALE]
    return Series(held.labels, np.append(times, at), np.append(values, value))


class GridWithHistory:
    """The grid, and for what it does not hold the stored events.

    A selector that names no metric finds in the recent past (one look-back) what the grid holds; further back
    the store is asked, which says that it needs a name.
    """

    def __init__(self, grid: Grid, past: SeriesSource, now: float):
        self._grid, self._past, self._now = grid, past, now

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        name = exact_name(matchers)
        held = self._grid.select(matchers, start, end)
        if name is None:
            recent = start >= self._now - LOOKBACK_SECONDS - self._grid.step
            return held if recent else self._past.select(matchers, start, end)
        oldest = self._grid.oldest(name)
        if oldest is not None and oldest <= start + self._grid.step:
            return held
        if oldest is None or oldest > end:
            return self._past.select(matchers, start, end)
        return join_series(self._past.select(matchers, start, oldest - self._grid.step), held, oldest)


def join_series(past: Iterable[Series], held: Iterable[Series], oldest: float) -> list[Series]:
    """Series of before `oldest` and from then on, as one where they are the same."""
    later = {_key(one): _from(one, oldest) for one in held}
    found = []
    for one in past:
        rest = later.pop(_key(one), None)
        goes_on = rest is not None and len(rest.times) and rest.times[0] == oldest
        before = one if goes_on else _until(one, oldest, None)
        found.append(before if rest is None else _end_to_end(before, rest))
    return [*found, *(one for one in later.values() if len(one.times))]


def _from(series: Series, oldest: float) -> Series:
    since = series.times >= oldest
    return Series(series.labels, series.times[since], series.values[since])


def _end_to_end(one: Series, other: Series) -> Series:
    times = np.concatenate([one.times, other.times])
    return Series(one.labels, times, np.concatenate([one.values, other.values]))


def exact_name(matchers: Iterable[Matcher]) -> str | None:
    """The metric that is asked for; None where it is not named."""
    named = (matcher.value for matcher in matchers if matcher.name == METRIC_NAME and matcher.operator == "=")
    return next((name for name in named if name), None)


def _key(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(series.labels.items())
