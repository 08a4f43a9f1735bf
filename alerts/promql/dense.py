"""Series that share their sample times, as one array: what the server's grid gives to the rules.

An expression evaluated at one time reads a range as a slice of the array and reduces its rows. Series with a gap in the
range, and functions without a reduction here, are converted to `Windows`. The results are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from alerts.matching.labels import Matcher
from alerts.promql.label_sets import Flags, Groups, Integers, LabelColumn, LabelSets
from alerts.promql.quantiles import quantiles
from alerts.promql.rows import SampleRows
from alerts.promql.series import STALE, Floats
from alerts.promql.windows import Samples, Windows, joined_bounds

#: Samples reduced at once, so that they stay in the processor's cache.
CHUNK = 1 << 16
#: Samples converted to windows at once; a few tens of megabytes.
WINDOWS_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False, slots=True)
class DenseSeries:
    """`times`: ascending, in seconds; `values`: shape (times, series), NaN for no sample.

    The first `before` times lie before the range; they only show which series ended in it.
    """

    labels: LabelColumn
    times: Floats
    values: Floats
    before: int

    def newest(self) -> SampleRows:
        """The series at the last of the times."""
        if len(self.times) == self.before:
            nothing = np.zeros((0, 1))
            return SampleRows(self.labels[:0], nothing, nothing > 0)
        values = self.values[-1][:, None]
        present = ~np.isnan(values)
        return SampleRows(self.labels, values, present).where(present)

    def with_last(self, labels: LabelColumn, at: float, values: Floats) -> DenseSeries:
        """The samples before `at` (seconds) with these values at `at`; series without one end there."""
        count = int(np.searchsorted(self.times, at))
        groups = Groups(self.labels)
        columns = groups.find(labels)
        new = columns < 0
        columns[new] = len(self.labels) + np.arange(int(new.sum()))
        joined = np.full((count + 1, len(self.labels) + int(new.sum())), np.nan)
        joined[:count, : len(self.labels)] = self.values[:count]
        joined[count, columns] = values
        numbers = np.concatenate([self.labels.numbers, labels.within(self.labels.sets).numbers[new]])
        together = LabelColumn(self.labels.sets, numbers, unique=True)
        return DenseSeries(together, np.append(self.times[:count], at), joined, min(self.before, count))

    def samples(self, marks: bool) -> Samples:
        """All samples; with `marks` each series ends with a staleness marker, as in `SeriesSource`."""
        values = np.ascontiguousarray(self.values.T)
        present = ~np.isnan(values)
        if marks:
            ended = np.zeros_like(present)
            ended[:, 1:] = present[:, :-1] & ~present[:, 1:]
            values, present = np.where(ended, STALE, values), present | ended
        values, present = values[:, self.before :], present[:, self.before :]
        times = np.broadcast_to(_milliseconds(self.times[self.before :]), values.shape)
        held = np.append(values[present], 0.0)
        return Samples(self.labels, times[present], held, joined_bounds(present.sum(axis=1)))


class DenseSource(Protocol):
    """A SeriesSource that can give series as arrays."""

    @property
    def label_sets(self) -> LabelSets:
        """The numbers of its labels."""

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        """The series that `select` gives; None where they have no common times, or values that are not finite.

        A selector without an equality matcher for the metric name gives None.
        """


def as_dense(source: object) -> DenseSource | None:
    """The source if it can give arrays. `isinstance` with a protocol takes longer than a small rule."""
    return cast(DenseSource, source) if hasattr(source, "dense") else None


def _milliseconds(times: Floats) -> Integers:
    return np.rint(times * 1000).astype(np.int64)


# -- ranges --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class DenseRange:
    """A range vector at one time. `values`: shape (times, series); `times`, `until`, `at`, `length` in milliseconds."""

    labels: LabelColumn
    times: Integers
    values: Floats
    until: int
    at: int
    length: int

    @classmethod
    def of(cls, found: DenseSeries, until: int, at: int, length: int) -> DenseRange:
        """The samples of a range, without what came before it."""
        times = _milliseconds(found.times[found.before :])
        return cls(found.labels, times, found.values[found.before :], until, at, length)

    def take(self, columns: Integers) -> DenseRange:
        """Some of the series."""
        return replace(self, labels=self.labels.take(columns), values=self.values[:, columns])

    def windows(self) -> Windows:
        """The same as windows."""
        found = DenseSeries(self.labels, self.times / 1000, self.values, 0)
        until, at = np.array([self.until]), np.array([self.at])
        return Windows.over(found.samples(marks=False), until, at, self.length)

    def reduced(
        self, name: str, scalars: Sequence[Floats], of_windows: Callable[[Windows], tuple[Floats, Flags]]
    ) -> tuple[Floats, Flags]:
        """A function of the range as (series, 1) values and where there are any; `of_windows`: the same of windows."""
        count = len(self.labels)
        result, present = np.zeros(count), np.zeros(count, bool)
        reduce = REDUCTIONS.get(name) if len(self.times) else None
        whole = ~np.isnan(self.values.min(axis=0)) if reduce is not None else present.copy()
        if reduce is not None and whole.any():
            part = self if whole.all() else self.take(np.flatnonzero(whole))
            values, exact = reduce(part, *scalars)
            result[whole], present[whole] = values, len(self.times) >= MIN_SAMPLES.get(name, 1)
            whole[whole] = exact
        rest, most = np.flatnonzero(~whole), max(1, WINDOWS_CHUNK // max(1, len(self.times)))
        for begin in range(0, len(rest), most):
            some = rest[begin : begin + most]
            values, there = of_windows(self.take(some).windows())
            result[some], present[some] = values[:, 0], there[:, 0]
        return result[:, None], present[:, None]


#: Values of series without a gap, and which of them are exact; the others are computed from windows.
Reduced = tuple[Floats | float, Flags | bool]


def _differences(change: np.ufunc) -> Callable[[DenseRange], Reduced]:
    def count(found: DenseRange) -> Reduced:
        return change(found.values[:-1], found.values[1:]).sum(axis=0).astype(float), True

    return count


def _extrapolated(counter: bool, per_second: bool) -> Callable[[DenseRange], Reduced]:
    """As `over_time` has it, of a counter without a reset."""

    def change(found: DenseRange) -> Reduced:
        first, last = found.values[0], found.values[-1]
        if len(found.times) < 2:
            return 0.0, True
        total = last - first
        covered = (found.times[-1] - found.times[0]) / 1000
        between = covered / (len(found.times) - 1)
        to_start = _reach((found.times[0] - (found.until - found.length)) / 1000, between)
        to_end = _reach((found.until - found.times[-1]) / 1000, between)
        exact: Any = True
        if counter:
            exact = ~(found.values[1:] < found.values[:-1]).any(axis=0)
            rising = (total > 0) & (first >= 0)
            to_start = np.where(rising, np.fmin(to_start, covered * (first / total)), to_start)
        result = total * ((covered + to_start + to_end) / covered)
        return result / (found.length / 1000) if per_second else result, exact

    return change


def _reach(distance: float, between: float) -> Any:
    return between / 2 if distance >= between * 1.1 else distance


def _by_chunk(function: Callable[..., Floats]) -> Callable[..., Reduced]:
    """Apply a function of (range, values of shape (series, times), start of each series) to some series at a time."""

    def applied(found: DenseRange, *scalars: Floats) -> Reduced:
        count, times = len(found.labels), len(found.times)
        result, most = np.zeros(count), max(1, CHUNK // times)
        for begin in range(0, count, most):
            values = np.ascontiguousarray(found.values[:, begin : begin + most].T)
            result[begin : begin + most] = function(found, values, np.arange(len(values)) * times, *scalars)
        return result, np.isfinite(result)

    return applied


def _sums(found: DenseRange, values: Floats, starts: Integers) -> Floats:
    """NaN where large terms cancel each other, which is computed exactly from windows."""
    total = np.add.reduceat(values.ravel(), starts)
    lost = np.abs(total) < 0.01 * np.add.reduceat(np.abs(values).ravel(), starts)
    return np.where(lost, np.nan, total)


def _averages(found: DenseRange, values: Floats, starts: Integers) -> Floats:
    return _sums(found, values, starts) / len(found.times)


def _quantile(found: DenseRange, values: Floats, starts: Integers, q: Floats) -> Floats:
    ordered = np.sort(values, axis=1).ravel()
    return quantiles(q, ordered, starts, np.full(len(starts), len(found.times)))


def _slope(found: DenseRange, values: Floats, starts: Integers) -> Floats:
    return _regression(found, values, starts, int(found.times[0]))[0]


def _predicted(found: DenseRange, values: Floats, starts: Integers, ahead: Floats) -> Floats:
    slope, height = _regression(found, values, starts, found.at)
    return slope * ahead + height


def _regression(found: DenseRange, values: Floats, starts: Integers, origin: int) -> tuple[Floats, Floats]:
    """Slope per second, and height at `origin` (milliseconds), of the line of least squares."""
    count, whole = len(found.times), np.zeros(1, np.int64)
    x = (found.times - origin) / 1000
    mean_x, mean_y = np.add.reduceat(x, whole) / count, np.add.reduceat(values.ravel(), starts) / count
    x = x - mean_x
    slope = np.add.reduceat((x * (values - mean_y[:, None])).ravel(), starts) / np.add.reduceat(x * x, whole)
    first = values[:, 0]
    level = ~(values != values[:, :1]).any(axis=1)
    return np.where(level, 0.0, slope), np.where(level, first, mean_y - slope * mean_x)


REDUCTIONS: dict[str, Callable[..., Reduced]] = {
    "avg_over_time": _by_chunk(_averages),
    "changes": _differences(np.not_equal),
    "count_over_time": lambda found: (float(len(found.times)), True),
    "delta": _extrapolated(counter=False, per_second=False),
    "deriv": _by_chunk(_slope),
    "first_over_time": lambda found: (found.values[0], True),
    "increase": _extrapolated(counter=True, per_second=False),
    "last_over_time": lambda found: (found.values[-1], True),
    "max_over_time": lambda found: (np.fmax.reduce(found.values, axis=0), True),
    "min_over_time": lambda found: (np.fmin.reduce(found.values, axis=0), True),
    "predict_linear": _by_chunk(_predicted),
    "present_over_time": lambda found: (1.0, True),
    "quantile_over_time": _by_chunk(_quantile),
    "rate": _extrapolated(counter=True, per_second=True),
    "resets": _differences(np.greater),
    "sum_over_time": _by_chunk(_sums),
}
#: Samples that a function needs, where it is not 1.
MIN_SAMPLES = {"delta": 2, "deriv": 2, "increase": 2, "predict_linear": 2, "rate": 2}
