"""Functions of range vectors: windows in, one value a window out.

`OVER_TIME` is the table: name to a function of windows (and scalars, one value a step) that gives values
and where there are any. All drop the metric's name but `first_over_time` and `last_over_time`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from alerts.promql import sums
from alerts.promql.errors import OperationError
from alerts.promql.functions import extended
from alerts.promql.functions.extended import ExtendedWindows
from alerts.promql.label_sets import Flags, Integers
from alerts.promql.quantiles import quantiles
from alerts.promql.series import Floats
from alerts.promql.windows import Pieces, Windows

Result = tuple[Floats, Flags]


# -- single samples of a window ----------------------------------------------------------------------


def _last(windows: Windows) -> Result:
    return windows.value(windows.end - 1), windows.has_at_least(1)


def _first(windows: Windows) -> Result:
    return windows.value(windows.begin), windows.has_at_least(1)


def _time_of_first(windows: Windows) -> Result:
    return windows.time(windows.begin) / 1000, windows.has_at_least(1)


def _time_of_last(windows: Windows) -> Result:
    return windows.time(windows.end - 1) / 1000, windows.has_at_least(1)


def _time_of_extreme(windows: Windows, operation: np.ufunc) -> Result:
    """The time of the last sample that is the extreme; NaN is one only where there is nothing else."""

    def moment(pieces: Pieces) -> Floats:
        extreme = pieces.spread(operation.reduceat(pieces.values, pieces.starts))
        hit = (pieces.values == extreme) | (np.isnan(pieces.values) & np.isnan(extreme))
        return np.maximum.reduceat(np.where(hit, pieces.times, np.iinfo(np.int64).min), pieces.starts) / 1000

    return windows.each(1, moment)


def _count(windows: Windows) -> Result:
    return windows.counts.astype(float), windows.has_at_least(1)


def _present(windows: Windows) -> Result:
    return np.ones(windows.begin.shape), windows.has_at_least(1)


def _last_two(windows: Windows, counter: bool, per_second: bool) -> Result:
    """`idelta` and `irate`: the last two samples only."""
    before, after = windows.value(windows.end - 2), windows.value(windows.end - 1)
    gap = windows.time(windows.end - 1) - windows.time(windows.end - 2)
    result = np.where(after < before, after, after - before) if counter else after - before
    if per_second:
        result = result / (gap / 1000)
    return result, windows.has_at_least(2) & (gap > 0)


# -- changes from sample to sample -------------------------------------------------------------------


def _steps_where(windows: Windows, happens: Callable[[Floats, Floats], Any]) -> Floats:
    """How often something happens from one sample to the next, in each window."""
    values = windows.samples.values
    return windows.reduce(np.add, _after_first(happens(values[:-1], values[1:])), skip=1)


def _after_first(per_step: Any) -> Floats:
    """Laid out as the samples: what happened on the way to each of them."""
    return np.concatenate([[0.0], per_step])


def _changes(windows: Windows) -> Result:
    def differ(before: Floats, after: Floats) -> Flags:
        return (before != after) & ~(np.isnan(before) & np.isnan(after))

    windows = extended.anchored(windows) if isinstance(windows, ExtendedWindows) else windows
    return _steps_where(windows, differ), windows.has_at_least(1)


def _resets(windows: Windows) -> Result:
    windows = extended.anchored(windows) if isinstance(windows, ExtendedWindows) else windows
    return _steps_where(windows, np.greater), windows.has_at_least(1)


def _change(windows: Windows, counter: bool, per_second: bool) -> Result:
    """`delta`, `increase` and `rate`."""
    if isinstance(windows, ExtendedWindows):
        total, present = extended.change(windows, counter)
    else:
        total, present = _extrapolated(windows, counter)
    return total / (windows.length / 1000) if per_second else total, present


def _extrapolated(windows: Windows, counter: bool) -> Result:
    """The difference of the ends, stretched to the whole window.

    It is stretched to an edge of the window when the nearest sample is not much further from it than samples
    are from each other, else by half that distance; and never to before a counter would have been zero.
    """
    enough = windows.has_at_least(2)
    first, last = windows.value(windows.begin), windows.value(windows.end - 1)
    change = last - first
    if counter:
        change = change + _steps_where(windows, lambda before, after: np.where(after < before, before, 0.0))
    begins, ends = windows.time(windows.begin), windows.time(windows.end - 1)
    covered = (ends - begins) / 1000
    between = covered / np.maximum(windows.counts - 1, 1)
    to_start = _reach((begins - (windows.until - windows.length)) / 1000, between)
    to_end = _reach((windows.until - ends) / 1000, between)
    if counter:
        rising = (change > 0) & (first >= 0)
        to_start = np.where(rising, np.fmin(to_start, covered * (first / change)), to_start)
    return change * ((covered + to_start + to_end) / covered), enough


def _reach(distance: Floats, between: Floats) -> Floats:
    return np.where(distance >= between * 1.1, between / 2, distance)


# -- statistics --------------------------------------------------------------------------------------


def _sum(windows: Windows) -> Result:
    return _sums(windows), windows.has_at_least(1)


def _sums(windows: Windows) -> Floats:
    values = windows.samples.values
    begin, end = windows.begin.ravel(), windows.end.ravel()
    return sums.exact_where_cancelled(
        windows.reduce(np.add, values),
        windows.reduce(np.add, np.abs(values)),
        lambda index: values[begin[index] : end[index]],
    )


def _average(windows: Windows) -> Result:
    def in_parts() -> Floats:
        return windows.each(1, lambda p: p.sum(p.values / p.spread(p.lengths)))[0]

    return sums.mean(_sums(windows), windows.counts, in_parts), windows.has_at_least(1)


def _extreme(windows: Windows, operation: np.ufunc) -> Result:
    """fmin and fmax: a NaN counts only where there is nothing else."""
    return windows.reduce(operation, windows.samples.values), windows.has_at_least(1)


def _variance(windows: Windows) -> Result:
    def variance(pieces: Pieces) -> Floats:
        # From the first value on, so that equal values vary by 0 and not by the rounding of their mean.
        values = pieces.values - pieces.spread(pieces.values[pieces.starts])
        mean = pieces.sum(values) / pieces.lengths
        return pieces.sum((values - pieces.spread(mean)) ** 2) / pieces.lengths

    return windows.each(1, variance)


def _deviation(windows: Windows) -> Result:
    variance, present = _variance(windows)
    return np.sqrt(variance), present


def _deviation_from_median(windows: Windows) -> Result:
    """`mad_over_time`: the median distance from the median."""

    def medians(pieces: Pieces, values: Floats) -> Floats:
        order = np.lexsort((values, ~np.isnan(values), pieces.spread(np.arange(len(pieces.starts)))))
        half = np.full(len(pieces.starts), 0.5)
        return quantiles(half, values[order], pieces.starts, pieces.lengths)

    def deviation(pieces: Pieces) -> Floats:
        median = medians(pieces, pieces.values)
        return medians(pieces, np.abs(pieces.values - pieces.spread(median)))

    return windows.each(1, deviation)


def _quantile(q: Floats, windows: Windows) -> Result:
    def quantile(pieces: Pieces) -> Floats:
        values = pieces.values
        order = np.lexsort((values, ~np.isnan(values), pieces.spread(np.arange(len(pieces.starts)))))
        return quantiles(q[pieces.column], values[order], pieces.starts, pieces.lengths)

    return windows.each(1, quantile)


# -- trends ------------------------------------------------------------------------------------------


def _regression(pieces: Pieces, origin: Integers) -> tuple[Floats, Floats]:
    """Slope per second, and height at `origin` (milliseconds), of the line of least squares."""
    x, y = (pieces.times - pieces.spread(origin)) / 1000, pieces.values
    mean_x, mean_y = pieces.sum(x) / pieces.lengths, pieces.sum(y) / pieces.lengths
    x = x - pieces.spread(mean_x)
    slope = pieces.sum(x * (y - pieces.spread(mean_y))) / pieces.sum(x * x)
    first = y[pieces.starts]
    level = pieces.sum((y != pieces.spread(first)).astype(float)) == 0
    slope = np.where(level, np.where(np.isfinite(first), 0.0, np.nan), slope)
    return slope, np.where(level, first + slope, mean_y - slope * mean_x)


def _derivative(windows: Windows) -> Result:
    return windows.each(2, lambda pieces: _regression(pieces, pieces.times[pieces.starts])[0])


def _predicted(windows: Windows, ahead: Floats) -> Result:
    def predict(pieces: Pieces) -> Floats:
        slope, height = _regression(pieces, windows.steps[pieces.column])
        return slope * ahead[pieces.column] + height

    return windows.each(2, predict)


def _smoothed(windows: Windows, smoothing: Floats, trend: Floats) -> Result:
    """Double exponential smoothing (Holt and Winters, without seasons)."""
    for name, factor in (("smoothing", smoothing), ("trend", trend)):
        if not (inside := (factor > 0) & (factor < 1)).all():
            raise OperationError(
                f"invalid {name} factor. Expected: 0 < factor < 1, got: {factor[~inside][0]:f}"
            )

    def smooth(pieces: Pieces) -> Floats:
        weight, slope_weight = smoothing[pieces.column], trend[pieces.column]
        level = pieces.values[pieces.starts]
        slope = pieces.values[pieces.starts + 1] - level
        for index in range(1, int(pieces.lengths.max())):
            going = pieces.lengths > index
            value = pieces.values[np.where(going, pieces.starts + index, 0)]
            following = weight * value + (1 - weight) * (level + slope)
            risen = slope_weight * (following - level) + (1 - slope_weight) * slope
            level, slope = np.where(going, following, level), np.where(going, risen, slope)
        return level

    return windows.each(2, smooth)


OVER_TIME: dict[str, Callable[..., Result]] = {
    "avg_over_time": _average,
    "changes": _changes,
    "count_over_time": _count,
    "delta": partial(_change, counter=False, per_second=False),
    "deriv": _derivative,
    "double_exponential_smoothing": _smoothed,
    "first_over_time": _first,
    "idelta": partial(_last_two, counter=False, per_second=False),
    "increase": partial(_change, counter=True, per_second=False),
    "irate": partial(_last_two, counter=True, per_second=True),
    "last_over_time": _last,
    "mad_over_time": _deviation_from_median,
    "max_over_time": partial(_extreme, operation=np.fmax),
    "min_over_time": partial(_extreme, operation=np.fmin),
    "predict_linear": _predicted,
    "present_over_time": _present,
    "quantile_over_time": _quantile,
    "rate": partial(_change, counter=True, per_second=True),
    "resets": _resets,
    "stddev_over_time": _deviation,
    "stdvar_over_time": _variance,
    "sum_over_time": _sum,
    "ts_of_first_over_time": _time_of_first,
    "ts_of_last_over_time": _time_of_last,
    "ts_of_max_over_time": partial(_time_of_extreme, operation=np.fmax),
    "ts_of_min_over_time": partial(_time_of_extreme, operation=np.fmin),
}
