"""Selectors with edges: `anchored` and `smoothed` ranges, and `smoothed` instant selectors.

`anchored` takes the last sample before a range as its value at the left edge; `smoothed` interpolates between the
samples around each edge. Both look as far beyond the edges as an instant selector looks back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from alerts.promql.label_sets import Flags, Integers
from alerts.promql.rows import SampleRows
from alerts.promql.series import Floats, is_stale
from alerts.promql.windows import Samples, Windows

Result = tuple[Floats, Flags]


@dataclass(frozen=True, eq=False, slots=True)
class ExtendedWindows(Windows):
    """Windows with the samples around them: those of a window are low <= index < high, of its range begin .. end."""

    low: Integers
    high: Integers
    smoothed: bool


def windows(
    samples: Samples, until: Integers, steps: Integers, length: int, before: int, after: int
) -> ExtendedWindows:
    """Windows that also see `before` milliseconds before their range and `after` milliseconds behind it."""
    begin, end = samples.until(until - length), samples.until(until)
    low, high = samples.until(until - length - before), samples.until(until + after)
    return ExtendedWindows(samples, begin, end, until, steps, length, low, high, after > 0)


def interpolated(found: ExtendedWindows) -> SampleRows:
    """A smoothed instant selector: between the samples before and after each step, else the one before."""
    last, following = found.end - 1, found.end
    present = (found.begin < found.end) & ~is_stale(found.value(last))
    more = (following < found.high) & ~is_stale(found.value(following))
    values = np.where(more, _between(found, last, found.until, resets=False), found.value(last))
    return SampleRows(found.samples.labels, values, present).where(present)


def change(found: ExtendedWindows, counter: bool) -> Result:
    """The change from edge to edge; `counter`: a fall is a reset to 0. Used by delta, increase and rate."""
    left, right, present = (_smoothed_edges if found.smoothed else _anchored_edges)(found, counter)
    total = right - left
    if counter:
        inside = found.begin < found.end
        first = np.where(inside, found.value(found.begin), right)
        last = np.where(inside, found.value(found.end - 1), left)
        total = total + _resets(found) + _lost(left, first) + np.where(inside, _lost(last, right), 0.0)
    return total, present


def anchored(found: ExtendedWindows) -> Windows:
    """The windows with their anchors. Like Prometheus, one without samples in its range has the two before it."""
    first = np.minimum(found.begin - 1, found.end - 2)
    return replace(found, begin=np.clip(first, found.low, found.end))


def _anchored_edges(found: ExtendedWindows, counter: bool) -> tuple[Floats, Floats, Flags]:
    first = np.maximum(found.begin - 1, found.low)
    return found.value(first), found.value(found.end - 1), found.begin < found.end


def _smoothed_edges(found: ExtendedWindows, counter: bool) -> tuple[Floats, Floats, Flags]:
    start = found.until - found.length
    before = found.begin - 1
    left = np.where(
        before >= found.low, _between(found, before, start, resets=counter), found.value(found.begin)
    )
    last = found.end - 1
    more = found.end < found.high
    right = np.where(more, _between(found, last, found.until, resets=counter), found.value(last))
    # Something must lie behind the left edge, and something not behind the right one.
    return left, right, (found.begin < found.high) & (found.low < found.end)


def _between(found: ExtendedWindows, index: Integers, at: Integers, resets: bool) -> Floats:
    """The value at `at` on the line from sample `index` to the next; `resets`: a falling line starts at 0."""
    value, following = found.value(index), found.value(index + 1)
    when, then = found.time(index), found.time(index + 1)
    origin = np.where(following < value, 0.0, value) if resets else value
    line = origin + (following - origin) * ((at - when) / (then - when))
    return np.where(at == when, value, line)


def _resets(found: Windows) -> Floats:
    """The sum of what was lost at resets between samples of the range."""
    values = found.samples.values
    return found.reduce(np.add, np.concatenate([[0.0], _lost(values[:-1], values[1:])]), skip=1)


def _lost(before: Floats, after: Floats) -> Floats:
    return np.where(after < before, before, 0.0)
