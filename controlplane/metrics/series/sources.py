"""The sources that rules and queries read: the grid, current values added to it, stored history behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import numpy as np

from alerts.matching.labels import Matcher, matches
from alerts.promql.dense import DenseSeries, as_dense
from alerts.promql.errors import OperationError
from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.label_sets import Groups, Integers, LabelColumn, LabelSets, has_name
from alerts.promql.limits import paced
from alerts.promql.series import METRIC_NAME, STALE, Floats, Series, SeriesSource, is_stale
from controlplane.metrics.series.grid import Grid, NamedSample
from listeners.protocol.catalogue import BY_NAME

Wanted = frozenset[str] | None
#: Metrics that one selector may read of the past.
MAX_NAMES = 50


class LiveSource:
    """A source with the values at `at` appended; a series without one ends with a staleness marker.

    `at` is rounded to whole milliseconds, as the evaluator rounds its times: otherwise half of all selections
    "until now" end just before the values. `sample` returns all values at `at` of the wanted metrics (None: of
    all). It is called once for each name, and only by selections that include `at`. `numbers` returns the values of a
    metric, among others, by the numbers of their labels in the label sets of the source.
    """

    def __init__(
        self,
        source: SeriesSource,
        at: float,
        sample: Callable[[Wanted], Iterable[NamedSample]],
        numbers: Callable[[str], tuple[Integers, Floats]] | None = None,
    ):
        at = round(at * 1000) / 1000
        self._source, self._at, self._numbers = source, at, numbers
        self._arrays = as_dense(source)
        self._current = cache(lambda wanted: [_series(item, at) for item in paced(sample(wanted))])

    @property
    def label_sets(self) -> LabelSets:
        """The numbers of the source's labels."""
        return self._arrays.label_sets if self._arrays else LabelSets()

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        if self._arrays is None:
            return None
        held, name = self._arrays.dense(matchers, start, end), exact_name(matchers)
        if held is None or name is None or not start < self._at <= end:
            return held
        if self._numbers is None:
            return None
        numbers, values = self._numbers(name)
        of_metric = np.flatnonzero(has_name(numbers, held.labels.sets.name_number(name)))
        labels, values = LabelColumn(held.labels.sets, numbers[of_metric]), values[of_metric]
        if not np.isfinite(values).all():
            return None
        first = Groups(labels).first
        labels, values = labels.take(first), values[first]
        chosen = labels.matching(tuple(m for m in matchers if m.name != METRIC_NAME))
        return held.with_last(labels.take(chosen), self._at, values[chosen])

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        held = self._source.select(matchers, start, end)
        if not start < self._at <= end:
            return held
        name = exact_name(matchers)
        current = self._current(None if name is None else frozenset({name}))
        now = {_key(series): series for series in paced(current) if matches(matchers, series.labels)}
        past = (_until(series, self._at, now.pop(_key(series), None)) for series in paced(held))
        return [*(series for series in past if len(series.times)), *now.values()]


def _series(sample: NamedSample, at: float) -> Series:
    name, labels, value = sample
    return Series({METRIC_NAME: name, **labels}, np.array([at], float), np.array([value], float))


def _until(held: Series, at: float, now: Series | None) -> Series:
    """The samples before `at`, then the value at `at`, or a staleness marker."""
    before = held.times < at
    times, values = held.times[before], held.values[before]
    if now is None and (not len(values) or is_stale(values[-1:])[0]):
        return Series(held.labels, times, values)
    value = now.values if now is not None else [STALE]
    return Series(held.labels, np.append(times, at), np.append(values, value))


class GridWithHistory:
    """The grid, and stored history for times that it does not hold.

    A selector without one metric name, as in `{__name__=~"app:.*"}`, reads the grid for the recent past (one
    look-back), and for older times each metric that its matchers allow. OperationError if these are too many.
    """

    def __init__(self, grid: Grid, past: SeriesSource, now: float):
        self._grid, self._past, self._now = grid, past, now

    @property
    def label_sets(self) -> LabelSets:
        """The numbers of the grid's labels."""
        return self._grid.label_sets

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        """The series of the grid where it holds all of the time."""
        name = exact_name(matchers)
        covered = name is not None and self._reaches(self._grid.oldest(name), start)
        return self._grid.dense(matchers, start, end) if covered else None

    def _reaches(self, oldest: float | None, start: float) -> bool:
        return oldest is not None and oldest <= start + self._grid.step

    def _each_name(self, matchers: Sequence[Matcher]) -> Iterator[list[Matcher]]:
        """The same matchers for each metric that they allow."""
        names = _allowed_names(matchers, self._grid.names | BY_NAME.keys())
        if len(names) > MAX_NAMES:
            raise OperationError(
                f"a query of the past must name the metric, as in NAME{{…}}; this selector allows {len(names)}, "
                f"the limit is {MAX_NAMES}"
            )
        others = [matcher for matcher in matchers if matcher.name != METRIC_NAME]
        return ([Matcher(METRIC_NAME, "=", name), *others] for name in names)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        name = exact_name(matchers)
        held = self._grid.select(matchers, start, end)
        if name is None:
            if start >= self._now - LOOKBACK_SECONDS - self._grid.step:
                return held
            return [found for named in self._each_name(matchers) for found in self.select(named, start, end)]
        oldest = self._grid.oldest(name)
        if self._reaches(oldest, start):
            return held
        if oldest is None or oldest > end:
            return self._past.select(matchers, start, end)
        return join_series(self._past.select(matchers, start, oldest - self._grid.step), held, oldest)


def _allowed_names(matchers: Sequence[Matcher], known: Iterable[str]) -> list[str]:
    """The known metrics that the matchers of the name allow."""
    of_name = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
    return sorted(name for name in known if all(matcher.matches({METRIC_NAME: name}) for matcher in of_name))


def join_series(past: Iterable[Series], held: Iterable[Series], oldest: float) -> list[Series]:
    """Join series before `oldest` with those from then on, by their labels."""
    later = {_key(series): _from(series, oldest) for series in held}
    found = []
    for series in past:
        rest = later.pop(_key(series), None)
        goes_on = rest is not None and len(rest.times) and rest.times[0] == oldest
        before = series if goes_on else _until(series, oldest, None)
        found.append(before if rest is None else _end_to_end(before, rest))
    return [*found, *(series for series in later.values() if len(series.times))]


def _from(series: Series, oldest: float) -> Series:
    since = series.times >= oldest
    return Series(series.labels, series.times[since], series.values[since])


def _end_to_end(first: Series, second: Series) -> Series:
    times = np.concatenate([first.times, second.times])
    return Series(first.labels, times, np.concatenate([first.values, second.values]))


def exact_name(matchers: Iterable[Matcher]) -> str | None:
    """The metric name that the matchers require; None if they name none."""
    named = (matcher.value for matcher in matchers if matcher.name == METRIC_NAME and matcher.operator == "=")
    return next((name for name in named if name), None)


def _key(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(series.labels.items())
