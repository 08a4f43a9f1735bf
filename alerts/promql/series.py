"""Input and output types of an evaluation: series, series sources and the four value types.

Storage implements SeriesSource; the evaluator needs nothing else. Times are Unix seconds with millisecond
resolution, as in Prometheus.
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
#: Prometheus' stale marker: the NaN bit pattern that ends a series. All other NaN are values.
STALE = np.array(0x7FF0000000000002, np.uint64).view(np.float64)
#: Prometheus' NaN of a sample. In tables of values numpy's own NaN stands for "no sample".
NAN_SAMPLE = np.array(0x7FF8000000000001, np.uint64).view(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class Series:
    """Samples of one label set (including `__name__`).

    `times` ascend. NaN is a value, except STALE: after it the series is absent, regardless of the look-back,
    until its next sample. Without a stale marker a series ends when the look-back does.
    """

    labels: Labels
    times: Floats
    values: Floats


class SeriesSource(Protocol):
    """Source of samples: recent series of the server, history, or a test."""

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """Every series that meets all matchers, with its samples of `start` < t <= `end`.

        Label sets are distinct; series without a sample in the range may be omitted.
        """


@dataclass(frozen=True, slots=True)
class Sample:
    """An element of an instant vector; its time is the evaluation time."""

    labels: Labels
    value: float


class Vector(list[Sample]):
    """An instant vector. The order is significant only after `sort`, `topk` and `bottomk`."""


class Matrix(list[Series]):
    """Result of a range query or of a range selector: series with samples."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar result."""

    value: float


@dataclass(frozen=True, slots=True)
class String:
    """A string result."""

    value: str


Value = Vector | Matrix | Scalar | String


def is_stale(values: Floats) -> NDArray[np.bool_]:
    """Mask of the stale markers."""
    return values.view(np.uint64) == STALE.view(np.uint64)


def is_absent(values: Floats) -> NDArray[np.bool_]:
    """Mask of the places of a table that hold no sample."""
    return values.view(np.uint64) == np.float64(np.nan).view(np.uint64)


def as_samples(values: Floats) -> Floats:
    """The same values, with every NaN as NAN_SAMPLE."""
    unknown = np.isnan(values)
    return np.where(unknown, NAN_SAMPLE, values) if unknown.any() else values


class SeriesInMemory:
    """In-memory series source, for tests and computed series."""

    def __init__(self, series: Iterable[Series]):
        self._series = list(series)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """See SeriesSource."""
        cut = (_between(series, start, end) for series in self._series if matches(matchers, series.labels))
        return [series for series in cut if len(series.times)]


def _between(series: Series, start: float, end: float) -> Series:
    first, last = np.searchsorted(series.times, [start, end], side="right")
    return Series(series.labels, series.times[first:last], series.values[first:last])


def series_of(labels: Mapping[str, str], samples: Mapping[float, float]) -> Series:
    """Build a series from a mapping of time to value."""
    times = sorted(samples)
    return Series(dict(labels), np.array(times, float), np.array([samples[t] for t in times], float))
