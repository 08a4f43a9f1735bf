"""Series source that prefetches each metric once per time range, for evaluations that advance in time.

Many rules read the same metrics over overlapping ranges, and computing series from stored events is slow.
Used by `alerts.replay`. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, Series, SeriesSource

#: How often a range that exceeds the source's limits is halved, at most.
MAX_HALVINGS = 8

Key = frozenset[tuple[str, str]]


@dataclass
class _Prefetch:
    """Prefetched series with samples of `start` < t <= `end`."""

    start: float
    end: float
    series: dict[Key, Series] = field(default_factory=dict)


class PrefetchedSource:
    """A caching view of `source`. `narrow_by`: labels whose equality matchers are passed on to the source."""

    def __init__(self, source: SeriesSource, narrow_by: Collection[str] = ()):
        self._source, self._narrow_by = source, frozenset(narrow_by)
        self._from = self._until = float("-inf")
        self._prefetched: dict[frozenset[Matcher], _Prefetch] = {}

    def advance(self, start: float, end: float) -> None:
        """Announce that evaluations are now between `start` and `end`; drop older samples, fetch up to `end`."""
        if self._from > float("-inf"):
            for prefetch in self._prefetched.values():
                _trim(prefetch, prefetch.start + start - self._from)
        self._from, self._until = start, end

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """The source's series. A selector without a metric name is not cached."""
        key = frozenset(
            m for m in matchers if m.operator == "=" and m.name in (METRIC_NAME, *self._narrow_by)
        )
        if not any(m.name == METRIC_NAME for m in key):
            return self._source.select(matchers, start, end)
        prefetch = self._covering(key, start, end)
        cut = (_between(s, start, end) for s in prefetch.series.values() if matches(matchers, s.labels))
        return [series for series in cut if len(series.times)]

    def _covering(self, key: frozenset[Matcher], start: float, end: float) -> _Prefetch:
        prefetch = self._prefetched.get(key)
        if prefetch is None:
            prefetch = self._prefetched[key] = _Prefetch(start, start)
        if start < prefetch.start:
            earlier = self._fetched(key, start, prefetch.start)
            prefetch.series = _joined(earlier, prefetch.series.values())
            prefetch.start = start
        if end > prefetch.end:
            until = max(end, self._until)
            prefetch.series = _joined(prefetch.series.values(), self._fetched(key, prefetch.end, until))
            prefetch.end = until
        return prefetch

    def _fetched(
        self, matchers: Collection[Matcher], start: float, end: float, halved: int = 0
    ) -> Sequence[Series]:
        try:
            return self._source.select(tuple(matchers), start, end)
        except LimitExceeded:
            if halved == MAX_HALVINGS:
                raise
        middle = (start + end) / 2
        earlier = self._fetched(matchers, start, middle, halved + 1)
        return list(_joined(earlier, self._fetched(matchers, middle, end, halved + 1)).values())


def _trim(prefetch: _Prefetch, start: float) -> None:
    prefetch.start = min(start, prefetch.end)
    cut = {key: _between(series, prefetch.start, prefetch.end) for key, series in prefetch.series.items()}
    prefetch.series = {key: series for key, series in cut.items() if len(series.times)}


def _between(series: Series, start: float, end: float) -> Series:
    first, last = np.searchsorted(series.times, [start, end], side="right")
    return Series(series.labels, series.times[first:last], series.values[first:last])


def _joined(earlier: Iterable[Series], later: Iterable[Series]) -> dict[Key, Series]:
    """Concatenate the series of two adjacent ranges."""
    found = {_key(series.labels): series for series in earlier}
    for series in later:
        before = found.get(_key(series.labels))
        found[_key(series.labels)] = series if before is None else _concatenated(before, series)
    return found


def _concatenated(before: Series, after: Series) -> Series:
    times = np.concatenate([before.times, after.times])
    return Series(before.labels, times, np.concatenate([before.values, after.values]))


def _key(labels: Labels) -> Key:
    return frozenset(labels.items())
