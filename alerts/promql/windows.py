"""Range vectors as arrays: for every series and step, the samples of a time window.

Samples of all series are in one flat array; a window is a pair of indices into it. A function over thousands
of windows is therefore a few NumPy calls, and overlapping windows share their samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from alerts.promql.label_sets import Flags, Integers, LabelColumn, LabelSets
from alerts.promql.rows import SampleRows
from alerts.promql.series import Floats, Series, is_stale

#: Samples gathered at once; a few tens of megabytes.
CHUNK = 1_000_000
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """Concatenated series: the samples of row i are `times[bounds[i]:bounds[i + 1]]`, in milliseconds.

    `values` has one extra slot, so that `reduceat` can point behind the last sample.
    """

    labels: LabelColumn
    times: Integers
    values: Floats
    bounds: Integers

    @classmethod
    def of_series(cls, series: Sequence[Series], marks: bool, sets: LabelSets | None = None) -> Samples:
        """Concatenate series. `marks`: keep stale markers; range functions need them removed."""
        times = np.rint(_joined([added.times for added in series]) * 1000).astype(np.int64)
        values = _joined([added.values for added in series])
        bounds = joined_bounds([len(added.times) for added in series])
        if not marks and (kept := ~is_stale(values)).sum() < len(values):
            times, values, bounds = times[kept], values[kept], joined_bounds(kept)[bounds]
        labels = LabelColumn.of((added.labels for added in series), sets)
        return cls(labels, times, np.append(values, 0.0), bounds)

    @classmethod
    def of_rows(cls, rows: SampleRows, times: Integers) -> Samples:
        """Build from a subquery's result."""
        where = np.nonzero(rows.present)
        values = np.append(rows.values[where], 0.0)
        return cls(rows.labels, times[where[1]], values, joined_bounds(rows.present.sum(axis=1)))

    def until(self, times: Integers) -> Integers:
        """The index behind the last sample at or before each time, shape (series, times)."""
        if not len(self.times) or not len(times):
            return np.broadcast_to(self.bounds[:-1, None], (len(self.labels), len(times)))
        # One sorted array for all series: each gets its own range of keys.
        low, high = self.times.min() - 1, self.times.max()
        span = high - low + 1
        starts = np.arange(len(self.labels), dtype=np.int64)[:, None] * span
        lengths = np.diff(self.bounds)
        keys = np.repeat(starts[:, 0], lengths) + (self.times - low)
        return np.searchsorted(keys, starts + (np.clip(times, low, high) - low), side="right")


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays).astype(np.float64, copy=False) if arrays else np.zeros(0)


def joined_bounds(lengths: Sequence[int] | Integers | Flags) -> Integers:
    """The bounds of pieces of these lengths, one after the other."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """`begin` and `end` (exclusive) are indices of shape (series, steps).

    `until`: right edge of each step's window; `steps`: evaluation times, which differ from it with `offset` and
    `@`; `length`: window length. All in milliseconds.
    """

    samples: Samples
    begin: Integers
    end: Integers
    until: Integers
    steps: Integers
    length: int

    @classmethod
    def over(cls, samples: Samples, until: Integers, steps: Integers, length: int) -> Windows:
        """Left-open windows: until - length < t <= until."""
        return cls(samples, samples.until(until - length), samples.until(until), until, steps, length)

    @property
    def counts(self) -> Integers:
        """Number of samples in each window."""
        return self.end - self.begin

    def has_at_least(self, count: int) -> Flags:
        """Mask of the windows with at least `count` samples."""
        return self.counts >= count

    def value(self, index: Integers) -> Floats:
        """Values at flat indices; undefined where the index is outside its window."""
        return self.samples.values[np.clip(index, 0, len(self.samples.times))]

    def time(self, index: Integers) -> Integers:
        """Times (milliseconds) at flat indices, like `value`."""
        if not len(self.samples.times):
            return np.zeros(index.shape, np.int64)
        return self.samples.times[np.clip(index, 0, len(self.samples.times) - 1)]

    def reduce(self, operation: np.ufunc, array: Floats, skip: int = 0) -> Floats:
        """Reduce `array` (aligned with the values) in each window, without its first `skip` samples."""
        begin = self.begin + skip
        full = begin < self.end
        result = np.zeros(begin.shape)
        if full.any():
            # Every second piece lies between two windows and is discarded.
            edges = np.stack([begin[full], self.end[full]], axis=1).ravel()
            result[full] = operation.reduceat(array, edges)[::2]
        return result

    def each(self, least: int, function: Callable[[Pieces], Floats]) -> tuple[Floats, Flags]:
        """Apply `function` to all windows with at least `least` samples, copied out as Pieces."""
        full = self.has_at_least(max(1, least))
        result = np.zeros(full.shape)
        begin, end, column = self.begin[full], self.end[full], np.nonzero(full)[1]
        found = np.zeros(len(begin))
        for part in _parts(end - begin):
            found[part] = function(Pieces(self, begin[part], end[part], column[part]))
        result[full] = found
        return result, full


def _parts(lengths: Integers) -> list[slice]:
    """Runs of windows with about CHUNK samples together."""
    before = np.concatenate([[0], np.cumsum(lengths)[:-1]]) // CHUNK if len(lengths) else np.zeros(0)
    edges = [0, *(np.flatnonzero(np.diff(before)) + 1), len(lengths)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


class Pieces:
    """Windows copied out one after the other; `starts` and `lengths` delimit their samples."""

    def __init__(self, windows: Windows, begin: Integers, end: Integers, column: Integers):
        self.windows, self.column = windows, column
        self.lengths = end - begin
        self.starts = joined_bounds(self.lengths)[:-1]
        index = np.arange(self.lengths.sum()) + np.repeat(begin - self.starts, self.lengths)
        self.values = windows.samples.values[index]
        self.times = windows.samples.times[index]

    def spread(self, per_window: NDArray[Number]) -> NDArray[Number]:
        """Repeat one value per window for each of its samples."""
        return np.repeat(per_window, self.lengths)

    def sum(self, per_sample: Floats) -> Floats:
        """Sum per window."""
        return np.add.reduceat(per_sample, self.starts)
