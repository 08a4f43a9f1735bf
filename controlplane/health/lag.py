"""How far a query is behind: in seconds, from the recorded latest offsets; as a trend, by Burrow's rules.

At each trigger Spark reports a source's latest offset and the offset at which the batch ends. The latest
offsets over time show when an offset was written, so the age of the first unread row needs no access to the
source (the method of kafka-lag-exporter). Input rates against processing rates do not measure lag and are not
used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from controlplane.health.offset_units import offsets_read, sum_known
from controlplane.health.thresholds import Thresholds
from controlplane.model import ProgressSample, QueryView, SourceSample

Point = tuple[float, float]  # (time, latest offset or lag)
#: Batches whose median size is a batch of `lag_batches`.
RECENT_BATCHES = 20


class LagTrend(StrEnum):
    """How the lag of one partition, or of one whole source, develops over the last samples."""

    FINE = "fine"
    GROWING = "growing"  # never decreases
    STALLED = "stalled"  # rows are waiting and none is read


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
    def growth(self) -> float:
        """Offsets by which the lag grew over the window."""
        return self.lags[-1] - self.lags[0]


def triggered_at(sample: ProgressSample) -> float:
    """When the sample's trigger began, by the corrected clock; its latest offsets were read then."""
    return sample.at - sample.duration


def lag_seconds(view: QueryView, now: float) -> float | None:
    """Age at `now` of the oldest unread row of any source; 0.0 if all rows are read, None if unknown."""
    sources = view.progress[-1].sources if view.progress else ()
    lags = (source_lag_seconds(view, index, now) for index in range(len(sources)))
    return max((lag for lag in lags if lag is not None), default=None)


def source_lag_seconds(view: QueryView, index: int, now: float) -> float | None:
    """The same for one source, by its index in the query."""
    last = view.progress[-1]
    source = last.sources[index] if index < len(last.sources) else None  # another run may have had fewer
    if source is None or not source.latest or source.end is None:
        return None
    if (view.idle_at or 0.0) > last.at:
        return 0.0
    lags = (_partition_lag_seconds(view, index, part, now) for part in source.latest if part in source.end)
    return max((lag for lag in lags if lag is not None), default=None)


def _partition_lag_seconds(view: QueryView, index: int, part: str, now: float) -> float | None:
    source = view.progress[-1].sources[index]
    end, latest = (source.end or {})[part], (source.latest or {})[part]
    if not (math.isfinite(end) and math.isfinite(latest)):
        return None
    if end >= latest:
        return 0.0
    written = written_at(latest_offsets(view, index, part), end)
    return None if written is None else max(0.0, now - written)


def latest_offsets(view: QueryView, index: int, part: str) -> Iterator[Point]:
    """The recorded latest offsets of a partition, newest first.

    An idle event counts as one: at that time the latest offset was where the batch before it had ended.
    """
    idle_at = view.idle_at
    for sample in reversed(view.progress):
        source = sample.sources[index] if index < len(sample.sources) else None
        if source is None or not source.latest or part not in source.latest:
            continue
        if idle_at is not None and sample.at <= idle_at:
            yield idle_at, max(source.latest[part], (source.end or {}).get(part, 0.0))
            idle_at = None
        yield triggered_at(sample), source.latest[part]


def written_at(points: Iterable[Point], end: float) -> float | None:
    """When the latest offset passed `end`, from points ordered newest to oldest; None with fewer than two.

    The time is interpolated between two points, or extrapolated to before all of them at their mean rate. If
    the latest offset has not moved since the oldest point, that point's time is the upper limit and is
    returned. A latest offset above a newer one belongs to a topic that has been recreated since.
    """
    newest: Point | None = None
    later: Point | None = None
    for at, offset in points:
        if not (math.isfinite(at) and math.isfinite(offset)) or (later and at >= later[0]):
            continue
        if later and offset > later[1]:
            break
        if later and offset <= end:
            return at + (end - offset) / (later[1] - offset) * (later[0] - at)
        newest, later = newest or (at, offset), (at, offset)
    if newest is None or later is None or later == newest:
        return None
    return _extrapolated(later, newest, end)


def _extrapolated(oldest: Point, newest: Point, end: float) -> float:
    rate = (newest[1] - oldest[1]) / (newest[0] - oldest[0])
    return oldest[0] - (oldest[1] - end) / rate if rate > 0 else oldest[0]


def trend_window(samples: Sequence[ProgressSample], limits: Thresholds) -> list[ProgressSample]:
    """The samples that a trend is computed from: the last `trend_samples`, spread over at least `trend_seconds`."""
    if len(samples) < limits.trend_samples:
        return []
    since = samples[-1].at - limits.trend_seconds
    wide = [sample for sample in samples if sample.at >= since]
    if len(wide) <= limits.trend_samples:
        return list(samples[-limits.trend_samples :])
    step = (len(wide) - 1) / (limits.trend_samples - 1)
    return [wide[round(i * step)] for i in range(limits.trend_samples)]


def lag_windows(samples: Sequence[ProgressSample], limits: Thresholds) -> Iterator[LagWindow]:
    """For each source that reports latest offsets throughout the window: the whole source, then its
    partitions.

    Sources and partitions that lag by no more than the least allowed lag are left out: they have no trend.
    """
    chosen = trend_window(samples, limits)
    for index in range(len(chosen[-1].sources) if chosen else 0):
        reported = [s.sources[index] for s in chosen if index < len(s.sources)]
        current = partition_lags(reported[-1])
        if len(reported) < len(chosen) or not sum(current.values()) > limits.allowed_rows:
            continue
        parts = [part for part in current if all(_reports_lag(source, part) for source in reported)]
        if not parts:
            continue
        seconds = chosen[-1].at - chosen[0].at
        yield _lag_window(reported, None, parts, seconds, limits)
        behind = [part for part in parts if len(parts) > 1 and current[part] > limits.allowed_rows]
        yield from (_lag_window(reported, part, [part], seconds, limits) for part in behind)


def _reports_lag(source: SourceSample, part: str) -> bool:
    return _finite(source.latest, part) and _finite(source.end, part)


def _finite(offsets: Mapping[str, float] | None, part: str) -> bool:
    return bool(offsets) and math.isfinite((offsets or {}).get(part, math.nan))


def _lag_window(
    reported: Sequence[SourceSample],
    part: str | None,
    parts: Sequence[str],
    seconds: float,
    limits: Thresholds,
) -> LagWindow:
    ends = tuple(_sum(source.end, parts) for source in reported)
    lags = tuple(sum(max(0.0, _at(s.latest, p) - _at(s.end, p)) for p in parts) for s in reported)
    read = [
        end - _sum(s.start, parts) for s, end in zip(reported, ends, strict=True) if _covers(s.start, parts)
    ]
    median_batch = median(max(0.0, rows) for rows in read) if read else 0.0
    allowed = max(limits.allowed_rows, limits.allowed_batches * median_batch)
    return LagWindow(reported[-1].name, part, lags, ends, seconds, allowed)


def _at(offsets: Mapping[str, float] | None, part: str) -> float:
    return (offsets or {})[part]


def _sum(offsets: Mapping[str, float] | None, parts: Iterable[str]) -> float:
    return sum(_at(offsets, part) for part in parts)


def _covers(offsets: Mapping[str, float] | None, parts: Iterable[str]) -> bool:
    return all(_finite(offsets, part) for part in parts)


def trend(window: LagWindow, limits: Thresholds) -> LagTrend:
    """Burrow's rules 3 to 5, and one more: steady growth from no lag by more than the allowed lag."""
    steps = [after - before for before, after in pairwise(window.lags)]
    always_behind = min(window.lags) > window.allowed
    if always_behind and len(set(window.ends)) == 1:
        return LagTrend.STALLED
    if min(steps) < 0:
        return LagTrend.FINE
    rising = sum(step > 0 for step in steps) >= limits.rising_share * len(steps)
    return LagTrend.GROWING if always_behind or (rising and window.growth > window.allowed) else LagTrend.FINE


def lag_points(samples: Iterable[ProgressSample], index: int | None = None) -> list[Point]:
    """(time, lag in offsets) of all sources, or of the one with this index, where the lag is known."""
    known = ((s.at, s.lag_offsets if index is None else _source_lag(s, index)) for s in samples)
    return [(at, lag) for at, lag in known if lag is not None and math.isfinite(lag)]


def _source_lag(sample: ProgressSample, index: int) -> float | None:
    return sample.sources[index].lag_offsets if index < len(sample.sources) else None


def catch_up_seconds(points: Sequence[Point]) -> float | None:
    """Seconds until the backlog is read, at its rate over `points`; None where it does not shrink."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    rate = (points[0][1] - points[-1][1]) / (points[-1][0] - points[0][0])
    return points[-1][1] / rate if rate > 0 else None


def partition_lags(source: SourceSample) -> Mapping[str, float]:
    """Lag in offsets of each partition whose latest offset and end offset are known."""
    ends, latest = source.end or {}, source.latest or {}
    return {part: max(0.0, offset - ends[part]) for part, offset in latest.items() if part in ends}


def total_arrival_rate(samples: Sequence[ProgressSample], counting: frozenset[str]) -> float | None:
    """Rows a second that arrived at the sources in `counting` (`offset_units.row_sources`) between the last two
    samples; None if no latest offset of them is known.

    Spark's `inputRowsPerSecond` is another figure: it counts rows that were read.
    """
    sources = samples[-1].sources if samples else ()
    return sum_known(arrival_rate(samples, i) for i, s in enumerate(sources) if s.name in counting)


def lag_batches(samples: Sequence[ProgressSample]) -> float | None:
    """How many batches of the recent size the backlog is: the most of any source; None if unknown."""
    sources = samples[-1].sources if samples else ()
    found = (_source_lag_batches(samples, index) for index in range(len(sources)))
    return max((batches for batches in found if batches is not None), default=None)


def _source_lag_batches(samples: Sequence[ProgressSample], index: int) -> float | None:
    lag = samples[-1].sources[index].lag_offsets
    if not lag:
        return lag
    same = (s.sources[index] for s in samples[-RECENT_BATCHES:] if index < len(s.sources))
    read = [offsets for source in same if (offsets := offsets_read(source.start, source.end) or 0.0) > 0]
    return lag / median(read) if read else None


def arrival_rate(samples: Sequence[ProgressSample], index: int) -> float | None:
    """Offsets a second by which a source's latest offset advanced between the last two samples; None if unknown.

    A latest offset that decreased means that the topic was recreated; it yields no rate.
    """
    if len(samples) < 2 or index >= min(len(samples[-1].sources), len(samples[-2].sources)):
        return None
    before, after = (sample.sources[index].latest or {} for sample in samples[-2:])
    seconds = triggered_at(samples[-1]) - triggered_at(samples[-2])
    parts = before.keys() & after.keys()
    advance = sum(after[p] - before[p] for p in parts)
    return advance / seconds if parts and seconds > 0 and advance >= 0 else None
