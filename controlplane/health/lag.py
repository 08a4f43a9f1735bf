"""How far behind a query is: seconds from the recorded heads of its sources, and Burrow's rules on the trend.

Spark reports, at each trigger, the head of a source and the offset that the batch ends at. The heads
over time say when any offset was written, so the age of the first unread row needs no access to the
source (kafka-lag-exporter's idea). Input against processed rates say nothing of lag and are not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from controlplane.health.thresholds import Thresholds
from controlplane.model import ProgressSample, QueryView, SourceSample

Point = tuple[float, float]  # (when, head offset)


class LagTrend(StrEnum):
    """What the last samples of one partition, or of one whole source, say."""

    FINE = "fine"
    GROWING = "growing"  # never decreases
    STALLED = "stalled"  # rows wait and not one is read


@dataclass(frozen=True)
class LagWindow:
    """Lag and end offsets over a window of `seconds`, of one partition or (`part` None) of a whole source."""

    source: str
    part: str | None
    lags: tuple[float, ...]
    ends: tuple[float, ...]
    seconds: float
    allowed: float

    @property
    def grown(self) -> float:
        return self.lags[-1] - self.lags[0]


def triggered_at(sample: ProgressSample) -> float:
    """When the sample's trigger began, by the corrected clock; its head was read then."""
    return sample.at - sample.duration


def lag_seconds(view: QueryView, now: float) -> float | None:
    """Age at `now` of the oldest unread row of any source; 0.0 when all is read, None where nobody knows."""
    sources = view.progress[-1].sources if view.progress else ()
    ages = (source_lag_seconds(view, index, now) for index in range(len(sources)))
    return max((age for age in ages if age is not None), default=None)


def source_lag_seconds(view: QueryView, index: int, now: float) -> float | None:
    """The same of one source, by its place in the query."""
    last = view.progress[-1]
    source = last.sources[index] if index < len(last.sources) else None  # another run may have had fewer
    if source is None or not source.latest or source.end is None:
        return None
    if (view.idle_at or 0.0) > last.at:
        return 0.0
    ages = (_partition_age(view, index, part, now) for part in source.latest if part in source.end)
    return max((age for age in ages if age is not None), default=None)


def _partition_age(view: QueryView, index: int, part: str, now: float) -> float | None:
    source = view.progress[-1].sources[index]
    end, head = (source.end or {})[part], (source.latest or {})[part]
    if not (math.isfinite(end) and math.isfinite(head)):
        return None
    if end >= head:
        return 0.0
    written = written_at(latest_offsets(view, index, part), end)
    return None if written is None else max(0.0, now - written)


def latest_offsets(view: QueryView, index: int, part: str) -> Iterator[Point]:
    """The recorded heads of a partition, newest first.

    An idle event tells one too: at that moment the head was where the batch before it had ended.
    """
    rested_at = view.idle_at
    for sample in reversed(view.progress):
        source = sample.sources[index] if index < len(sample.sources) else None
        if source is None or not source.latest or part not in source.latest:
            continue
        if rested_at is not None and sample.at <= rested_at:
            yield rested_at, max(source.latest[part], (source.end or {}).get(part, 0.0))
            rested_at = None
        yield triggered_at(sample), source.latest[part]


def written_at(points: Iterable[Point], end: float) -> float | None:
    """When the head went past `end`, by heads from newest to oldest; None with fewer than two.

    Interpolated between two heads, or before all of them at their mean rate; where the head has not
    moved since the oldest, that is the latest it can have been. A head above a newer one belongs to a topic
    that was made anew since.
    """
    newest: Point | None = None
    later: Point | None = None
    for at, head in points:
        if not (math.isfinite(at) and math.isfinite(head)) or (later and at >= later[0]):
            continue
        if later and head > later[1]:
            break
        if later and head <= end:
            return at + (end - head) / (later[1] - head) * (later[0] - at)
        newest, later = newest or (at, head), (at, head)
    if newest is None or later is None or later == newest:
        return None
    return _before(later, newest, end)


def _before(oldest: Point, newest: Point, end: float) -> float:
    rate = (newest[1] - oldest[1]) / (newest[0] - oldest[0])
    return oldest[0] - (oldest[1] - end) / rate if rate > 0 else oldest[0]


def trend_window(samples: Sequence[ProgressSample], limits: Thresholds) -> list[ProgressSample]:
    """The last samples to see a trend in: `trend_samples` of them, evenly over at least `trend_seconds`."""
    if len(samples) < limits.trend_samples:
        return []
    since = samples[-1].at - limits.trend_seconds
    wide = [sample for sample in samples if sample.at >= since]
    if len(wide) <= limits.trend_samples:
        return list(samples[-limits.trend_samples :])
    step = (len(wide) - 1) / (limits.trend_samples - 1)
    return [wide[round(i * step)] for i in range(limits.trend_samples)]


def lag_windows(samples: Sequence[ProgressSample], limits: Thresholds) -> Iterator[LagWindow]:
    """Of each source that tells a head throughout the window: the whole of it, then its partitions.

    Left out is what lags by no more than the least lag allowed: it has no trend.
    """
    chosen = trend_window(samples, limits)
    for index in range(len(chosen[-1].sources) if chosen else 0):
        told = [s.sources[index] for s in chosen if index < len(s.sources)]
        now = partition_lags(told[-1])
        if len(told) < len(chosen) or not sum(now.values()) > limits.allowed_rows:
            continue
        parts = [part for part in now if all(_tells(source, part) for source in told)]
        if not parts:
            continue
        seconds = chosen[-1].at - chosen[0].at
        yield _trail(told, None, parts, seconds, limits)
        behind = [part for part in parts if len(parts) > 1 and now[part] > limits.allowed_rows]
        yield from (_trail(told, part, [part], seconds, limits) for part in behind)


def _tells(source: SourceSample, part: str) -> bool:
    return _finite(source.latest, part) and _finite(source.end, part)


def _finite(offsets: Mapping[str, float] | None, part: str) -> bool:
    return bool(offsets) and math.isfinite((offsets or {}).get(part, math.nan))


def _trail(
    told: Sequence[SourceSample], part: str | None, parts: Sequence[str], seconds: float, limits: Thresholds
) -> LagWindow:
    ends = tuple(_sum(source.end, parts) for source in told)
    lags = tuple(sum(max(0.0, _at(s.latest, p) - _at(s.end, p)) for p in parts) for s in told)
    read = [e - _sum(s.start, parts) for s, e in zip(told, ends, strict=True) if _covers(s.start, parts)]
    usual = median(max(0.0, rows) for rows in read) if read else 0.0
    allowed = max(limits.allowed_rows, limits.allowed_batches * usual)
    return LagWindow(told[-1].name, part, lags, ends, seconds, allowed)


def _at(offsets: Mapping[str, float] | None, part: str) -> float:
    return (offsets or {})[part]


def _sum(offsets: Mapping[str, float] | None, parts: Iterable[str]) -> float:
    return sum(_at(offsets, part) for part in parts)


def _covers(offsets: Mapping[str, float] | None, parts: Iterable[str]) -> bool:
    return all(_finite(offsets, part) for part in parts)


def trend(trail: LagWindow, limits: Thresholds) -> LagTrend:
    """Burrow's rules 3 to 5, and one of ours: steady growth from nothing by more than the allowed lag."""
    steps = [after - before for before, after in pairwise(trail.lags)]
    always_behind = min(trail.lags) > trail.allowed
    if always_behind and len(set(trail.ends)) == 1:
        return LagTrend.STALLED
    if min(steps) < 0:
        return LagTrend.FINE
    rising = sum(step > 0 for step in steps) >= limits.rising_share * len(steps)
    return LagTrend.GROWING if always_behind or (rising and trail.grown > trail.allowed) else LagTrend.FINE


def lag_points(samples: Iterable[ProgressSample], index: int | None = None) -> list[Point]:
    """(when, rows that waited) of all sources, or of one by its place, where they were told."""
    told = ((s.at, s.lag_rows if index is None else _source_lag(s, index)) for s in samples)
    return [(at, rows) for at, rows in told if rows is not None and math.isfinite(rows)]


def _source_lag(sample: ProgressSample, index: int) -> float | None:
    return sample.sources[index].lag_rows if index < len(sample.sources) else None


def catch_up_seconds(points: Sequence[Point]) -> float | None:
    """Time until nothing waits, at the pace the lag shrank over `points`; None where it does not shrink."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    pace = (points[0][1] - points[-1][1]) / (points[-1][0] - points[0][0])
    return points[-1][1] / pace if pace > 0 else None


def partition_lags(source: SourceSample) -> Mapping[str, float]:
    """Rows that wait in each partition whose head and end are told."""
    ends, told = source.end or {}, source.latest or {}
    return {part: max(0.0, head - ends[part]) for part, head in told.items() if part in ends}


def total_arrival_rate(samples: Sequence[ProgressSample]) -> float | None:
    """Rows a second that arrived at all sources between the last two samples; None where none tells a head.

    Spark's `inputRowsPerSecond` is not that: it counts what was read.
    """
    told = (arrival_rate(samples, i) for i in range(len(samples[-1].sources) if samples else 0))
    known = [rate for rate in told if rate is not None]
    return sum(known) if known else None


def arrival_rate(samples: Sequence[ProgressSample], index: int) -> float | None:
    """Rows a second by which the head of a source moved between the last two samples; None if unknown.

    A head that went back tells of a topic made anew, and of no rate.
    """
    if len(samples) < 2 or index >= min(len(samples[-1].sources), len(samples[-2].sources)):
        return None
    before, after = (sample.sources[index].latest or {} for sample in samples[-2:])
    seconds = triggered_at(samples[-1]) - triggered_at(samples[-2])
    parts = before.keys() & after.keys()
    moved = sum(after[p] - before[p] for p in parts)
    return moved / seconds if parts and seconds > 0 and moved >= 0 else None
