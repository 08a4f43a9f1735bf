"""What goes into an evaluation and what comes out: series, and the four kinds of values.

Whoever holds samples implements SeriesSource; the evaluator asks nothing else. Times are Unix seconds
and count in whole milliseconds, as in Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels, Matcher, matches

Floats = NDArray[np.float64]
METRIC_NAME = "__name__"
#: The NaN by whose bits Prometheus marks that a series has ended; all other NaN are values.
STALE = np.array(0x7FF0000000000002, np.uint64).view(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class Series:
    """Samples of one label set (the metric's name is the label `__name__`).

    `times` ascend. A NaN is a value like others, but for STALE: from then on the series is not there, even
    for a look-back, until its next sample. A gap without such a mark ends when the look-back does.
    """

    labels: Labels
    times: Floats
    values: Floats


class SeriesSource(Protocol):
    """Where samples come from; the store's window, a block of history, a test."""

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """Every series that passes all matchers, with its samples of `start` < t <= `end`.

        Label sets must differ; a series without a sample in that time may be left out.
        """


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector; its time is the time of the evaluation."""

    labels: Labels
    value: float


class Vector(list[Sample]):
    """An instant vector. The order means something after `sort`, `topk` and `bottomk` only."""


class Matrix(list[Series]):
    """What a range query answers, or a range selector by itself: series with the times that have a value."""


@dataclass(frozen=True, slots=True)
class Scalar:
    value: float


@dataclass(frozen=True, slots=True)
class String:
    value: str


Value = Vector | Matrix | Scalar | String


def is_stale(values: Floats) -> NDArray[np.bool_]:
    """Where the marks are."""
    return values.view(np.uint64) == STALE.view(np.uint64)


class SeriesInMemory:
    """A source over a handful of series: for tests, and for what was computed rather than stored."""

    def __init__(self, series: Iterable[Series]):
        self._series = list(series)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        cut = (_between(one, start, end) for one in self._series if matches(matchers, one.labels))
        return [one for one in cut if len(one.times)]


def _between(series: Series, start: float, end: float) -> Series:
    first, last = np.searchsorted(series.times, [start, end], side="right")
    return Series(series.labels, series.times[first:last], series.values[first:last])


def series_of(labels: Mapping[str, str], samples: Mapping[float, float]) -> Series:
    """A series from a mapping of time to value."""
    times = sorted(samples)
    return Series(dict(labels), np.array(times, float), np.array([samples[t] for t in times], float))
