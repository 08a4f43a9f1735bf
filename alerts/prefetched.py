"""A source for evaluations that go forward in time: it asks the source behind it once for each stretch of a metric.

Many rules read the same metrics over times that overlap, and a source that makes its series from stored events
takes long to do so. Called by `alerts.replay`. Not for several threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, Series, SeriesSource

#: A stretch that is too much for the source is halved so often, at most.
MAX_HALVINGS = 8

Key = frozenset[tuple[str, str]]


@dataclass
class _Held:
    """Series of `start` < t <= `end` that pass the matchers they were asked for with."""

    start: float
    end: float
    series: dict[Key, Series] = field(default_factory=dict)


class PrefetchedSource:
    """`narrow_by`: labels whose equality matchers are handed on, so that less is asked for; others are not."""

    def __init__(self, source: SeriesSource, narrow_by: Collection[str] = ()):
        self._source, self._narrow_by = source, frozenset(narrow_by)
        self._from = self._until = float("-inf")
        self._held: dict[frozenset[Matcher], _Held] = {}

    def advance(self, start: float, end: float) -> None:
        """From here on evaluations are between `start` and `end`, which is where more is fetched to."""
        if self._from > float("-inf"):
            for held in self._held.values():
                _trim(held, held.start + start - self._from)
        self._from, self._until = start, end

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """As the source would answer. What names no metric is asked for each time."""
        key = frozenset(
            m for m in matchers if m.operator == "=" and m.name in (METRIC_NAME, *self._narrow_by)
        )
        if not any(m.name == METRIC_NAME for m in key):
            return self._source.select(matchers, start, end)
        held = self._covering(key, start, end)
        cut = (_between(one, start, end) for one in held.series.values() if matches(matchers, one.labels))
        return [one for one in cut if len(one.times)]

    def _covering(self, key: frozenset[Matcher], start: float, end: float) -> _Held:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(start, start)
        if start < held.start:
            earlier = self._fetched(key, start, held.start)
            held.series = _joined(earlier, held.series.values())
            held.start = start
        if end > held.end:
            until = max(end, self._until)
            held.series = _joined(held.series.values(), self._fetched(key, held.end, until))
            held.end = until
        return held

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


def _trim(held: _Held, start: float) -> None:
    held.start = min(start, held.end)
    cut = {key: _between(one, held.start, held.end) for key, one in held.series.items()}
    held.series = {key: one for key, one in cut.items() if len(one.times)}


def _between(series: Series, start: float, end: float) -> Series:
    first, last = np.searchsorted(series.times, [start, end], side="right")
    return Series(series.labels, series.times[first:last], series.values[first:last])


def _joined(earlier: Iterable[Series], later: Iterable[Series]) -> dict[Key, Series]:
    """Series of two stretches that follow each other."""
    found = {_key(one.labels): one for one in earlier}
    for one in later:
        before = found.get(_key(one.labels))
        found[_key(one.labels)] = one if before is None else _followed(before, one)
    return found


def _followed(before: Series, after: Series) -> Series:
    times = np.concatenate([before.times, after.times])
    return Series(before.labels, times, np.concatenate([before.values, after.values]))


def _key(labels: Labels) -> Key:
    return frozenset(labels.items())
