"""What a range selector holds: for every series and step the samples of a stretch of time.

Samples of all series lie in one flat array; a window is a first and a last index into it. So a function
over thousands of windows is a handful of numpy calls, and windows that overlap share their samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels
from alerts.promql.rows import Flags, Integers, SampleRows
from alerts.promql.series import Floats, Series, is_stale

#: Gathered at once; a few tens of megabytes.
CHUNK = 1_000_000
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """Series end to end: the samples of row i are `times[bounds[i]:bounds[i + 1]]`, in milliseconds.

    One more slot at the end of `values` lets `reduceat` point behind the last sample.
    """

    labels: Sequence[Labels]
    times: Integers
    values: Floats
    bounds: Integers

    @classmethod
    def of_series(cls, series: Sequence[Series], marks: bool) -> Samples:
        """`marks`: keep the marks that a series went stale; those who look at all samples want none."""
        times = np.rint(_joined([one.times for one in series]) * 1000).astype(np.int64)
        values = _joined([one.values for one in series])
        bounds = _bounds([len(one.times) for one in series])
        if not marks and (kept := ~is_stale(values)).sum() < len(values):
            times, values, bounds = times[kept], values[kept], _bounds(kept)[bounds]
        return cls([one.labels for one in series], times, np.append(values, 0.0), bounds)

    @classmethod
    def of_rows(cls, rows: SampleRows, times: Integers) -> Samples:
        """What a subquery gathered."""
        where = np.nonzero(rows.present)
        values = np.append(rows.values[where], 0.0)
        return cls(rows.labels, times[where[1]], values, _bounds(rows.present.sum(axis=1)))

    def until(self, times: Integers) -> Integers:
        """For each series and time the index behind the last sample not later, as (series, times)."""
        if not len(self.times) or not len(times):
            return np.broadcast_to(self.bounds[:-1, None], (len(self.labels), len(times)))
        # One sorted array for all series: each has its own stretch of the number line.
        low, high = self.times.min() - 1, self.times.max()
        span = high - low + 1
        starts = np.arange(len(self.labels), dtype=np.int64)[:, None] * span
        lengths = np.diff(self.bounds)
        keys = np.repeat(starts[:, 0], lengths) + (self.times - low)
        return np.searchsorted(keys, starts + (np.clip(times, low, high) - low), side="right")


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays).astype(np.float64, copy=False) if arrays else np.zeros(0)


def _bounds(lengths: Sequence[int] | Integers | Flags) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """`begin` and `end` (behind the last) have the shape (series, steps).

    `until`: the right end of each step's window, in milliseconds; `steps`: the times of evaluation, which
    `offset` and `@` part from it; `length`: of the windows, in milliseconds.
    """

    samples: Samples
    begin: Integers
    end: Integers
    until: Integers
    steps: Integers
    length: int

    @classmethod
    def over(cls, samples: Samples, until: Integers, steps: Integers, length: int) -> Windows:
        """Windows that are open at the left: start < t <= until."""
        return cls(samples, samples.until(until - length), samples.until(until), until, steps, length)

    @property
    def counts(self) -> Integers:
        return self.end - self.begin

    def has_at_least(self, least: int) -> Flags:
        return self.counts >= least

    def value(self, index: Integers) -> Floats:
        """Values at flat indices; where a window is too short for its index, anything."""
        return self.samples.values[np.clip(index, 0, len(self.samples.times))]

    def time(self, index: Integers) -> Integers:
        if not len(self.samples.times):
            return np.zeros(index.shape, np.int64)
        return self.samples.times[np.clip(index, 0, len(self.samples.times) - 1)]

    def reduce(self, operation: np.ufunc, array: Floats, skip: int = 0) -> Floats:
        """`operation` over `array` (laid out as the values) in each window, without its first `skip`."""
        begin = self.begin + skip
        full = begin < self.end
        result = np.zeros(begin.shape)
        if full.any():
            # Every other piece is what lies between two windows, and is thrown away.
            edges = np.stack([begin[full], self.end[full]], axis=1).ravel()
            result[full] = operation.reduceat(array, edges)[::2]
        return result

    def each(self, least: int, function: Callable[[Pieces], Floats]) -> tuple[Floats, Flags]:
        """What `function` makes of all windows of at least so many samples, laid out piece by piece."""
        full = self.has_at_least(max(1, least))
        result = np.zeros(full.shape)
        begin, end, column = self.begin[full], self.end[full], np.nonzero(full)[1]
        found = np.zeros(len(begin))
        for part in _parts(end - begin):
            found[part] = function(Pieces(self, begin[part], end[part], column[part]))
        result[full] = found
        return result, full


def _parts(lengths: Integers) -> list[slice]:
    """Runs of windows that come to about CHUNK samples together."""
    before = np.concatenate([[0], np.cumsum(lengths)[:-1]]) // CHUNK if len(lengths) else np.zeros(0)
    edges = [0, *(np.flatnonzero(np.diff(before)) + 1), len(lengths)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


class Pieces:
    """Some windows copied out, one behind the other: `starts` and `lengths` say which samples are whose."""

    def __init__(self, windows: Windows, begin: Integers, end: Integers, column: Integers):
        self.windows, self.column = windows, column
        self.lengths = end - begin
        self.starts = _bounds(self.lengths)[:-1]
        index = np.arange(self.lengths.sum()) + np.repeat(begin - self.starts, self.lengths)
        self.values = windows.samples.values[index]
        self.times = windows.samples.times[index]

    def spread(self, per_window: NDArray[Number]) -> NDArray[Number]:
        """One value a window to one value a sample."""
        return np.repeat(per_window, self.lengths)

    def sum(self, per_sample: Floats) -> Floats:
        return np.add.reduceat(per_sample, self.starts)
