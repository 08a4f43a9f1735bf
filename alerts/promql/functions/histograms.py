"""Quantiles and fractions of classic histograms, whose buckets have the label `le`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.annotations import Annotations
from alerts.promql.label_sets import Groups, Integers
from alerts.promql.limits import paced
from alerts.promql.rows import SampleRows, go_float, stacked
from alerts.promql.series import Floats
from alerts.promql.syntax.nodes import Node

BOUND = "le"
#: Buckets may fall by so small a part without it meaning anything: floating point, not a broken histogram.
_NOISE = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class Buckets:
    """Rows of classic histograms with their bounds. `corrected` takes the labels of each that must be corrected."""

    rows: SampleRows
    bounds: Floats
    corrected: Callable[[Labels], None]


def buckets(rows: SampleRows, argument: Node, annotations: Annotations) -> Buckets:
    """The buckets of a vector; rows without a readable `le` are left out, and noted."""
    bounds = np.array([_bound(labels) for labels in rows.labels], float)
    known = ~np.isnan(bounds)
    for row in np.flatnonzero(~known).tolist():
        annotations.unreadable_bound(rows.labels[row], argument)
    return Buckets(
        rows.take(np.flatnonzero(known)),
        bounds[known],
        lambda labels: annotations.not_monotonic(labels, argument),
    )


def histogram_quantile(q: Floats, found: Buckets) -> SampleRows:
    """`q`: one a step."""
    return _of_each(
        found, lambda bounds, counts, columns: _quantile(q[columns], bounds, counts)
    ).without_name()


def histogram_quantiles(found: Buckets, name: str, ranks: Sequence[Any]) -> SampleRows:
    """Several quantiles at once; the label `name` has the rank of each."""
    parts = []
    for q in ranks:
        rows = histogram_quantile(q, found)
        rank = go_float(q[0])
        labels = rows.labels.relabeled(lambda own: {**own, name: rank})  # noqa: B023
        parts.append(replace(rows, labels=labels))
    return stacked(*parts).merged()


def histogram_fraction(low: Floats, high: Floats, found: Buckets) -> SampleRows:
    """The fraction of observations between two bounds, both one a step."""

    def fraction(bounds: Floats, counts: Floats, columns: Integers) -> Floats:
        lower, upper = low[columns], high[columns]
        part = _rank(upper, bounds, counts) - _rank(lower, bounds, counts)
        result = np.where(lower >= upper, 0.0, part / counts[-1])
        unknown = np.isnan(lower) | np.isnan(upper) | (counts[-1] == 0) | np.isnan(counts[-1])
        return np.where(unknown, np.nan, result)

    return _of_each(found, fraction).without_name()


def _rank(bound: Floats, bounds: Floats, counts: Floats) -> Floats:
    """How many observations are not above `bound`, evenly spread within each bucket; the first begins at 0."""
    columns = np.arange(counts.shape[1])
    bucket = np.searchsorted(bounds, bound, side="left").clip(0, len(bounds) - 1)
    below = np.maximum(bucket - 1, 0)
    start = np.where(bucket == 0, np.minimum(0.0, bounds[0]) if bounds[0] > 0 else -np.inf, bounds[below])
    before = np.where(bucket == 0, 0.0, counts[below, columns])
    inside, end = counts[bucket, columns] - before, bounds[bucket]
    part = np.where(np.isfinite(start) & np.isfinite(end), (bound - start) / (end - start), 0.0)
    part = np.where(bound >= end, 1.0, part)
    return before + inside * np.clip(part, 0.0, 1.0)


Reduction = Callable[[Floats, Floats, Integers], Floats]


def _of_each(found: Buckets, reduction: Reduction) -> SampleRows:
    """`reduction(bounds, cumulative counts, columns)` of each histogram, at all steps with the same buckets."""
    rows = found.rows
    labels = rows.labels.dropping((BOUND,))
    groups = Groups(labels)
    values = np.zeros((len(groups), rows.steps))
    present = np.zeros((len(groups), rows.steps), bool)
    for group in paced(range(len(groups))):
        members = np.flatnonzero(groups.of == group)
        for columns in _alike(rows.present[members]):
            there = members[rows.present[members, columns[0]]]
            present[group, columns] = len(there) > 0
            if len(there):
                bounds, counts = _summed(found.bounds[there], rows.values[np.ix_(there, columns)])
                if len(bounds) < 2 or bounds[-1] != np.inf:
                    values[group, columns] = np.nan
                    continue
                counts, forced = _rising(counts)
                if forced:
                    found.corrected(labels[int(members[0])])
                values[group, columns] = reduction(bounds, counts, columns)
    return SampleRows(labels.take(groups.first), values, present)


def _bound(labels: Labels) -> float:
    """The upper bound of a bucket; NaN where there is none."""
    try:
        return float(labels.get(BOUND, "").replace("_", "x"))
    except ValueError:
        return np.nan


def _alike(present: np.ndarray) -> Sequence[np.ndarray]:
    """Steps put together by which buckets are there; nearly always one set."""
    columns: dict[bytes, list[int]] = {}
    for step, column in enumerate(np.ascontiguousarray(present.T)):
        columns.setdefault(column.tobytes(), []).append(step)
    return [np.array(steps, np.int64) for steps in columns.values()]


def _summed(bounds: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Bounds in order, each once, and the sum of their counts, shape (bounds, histograms)."""
    bounds, inverse = np.unique(bounds, return_inverse=True)
    summed = np.zeros((len(bounds), counts.shape[1]))
    np.add.at(summed, inverse, counts)
    return bounds, summed


def _quantile(q: Floats, bounds: Floats, counts: Floats) -> Floats:
    """Quantiles of histograms with the same bounds; `counts` is (buckets, histograms), cumulative."""
    total = counts[-1]
    rank = q * total
    bucket = np.minimum((counts[:-1] < rank).sum(axis=0), len(bounds) - 1)
    return _outside(q, np.where(total == 0, np.nan, _interpolated(rank, bucket, bounds, counts)))


def _rising(counts: Floats) -> tuple[Floats, bool]:
    """Counts that never fall, as those of buckets must, and whether any fell; tiny differences are none."""
    result, forced = counts.copy(), False
    for row in range(1, len(result)):
        before, now = result[row - 1], result[row]
        with np.errstate(invalid="ignore"):
            same = np.abs(now - before) <= _NOISE * (np.abs(now) + np.abs(before))
        falls = now < before
        forced = forced or bool((falls & ~same).any())
        result[row] = np.where(same | falls, before, now)
    return result, forced


def _interpolated(rank: Floats, bucket: np.ndarray, bounds: Floats, counts: Floats) -> Floats:
    """Samples are taken to lie evenly in their bucket; the first one begins at 0."""
    columns = np.arange(counts.shape[1])
    below = np.maximum(bucket - 1, 0)
    start = np.where(bucket == 0, 0.0, bounds[below])
    end = bounds[bucket]
    before = np.where(bucket == 0, 0.0, counts[below, columns])
    inside = counts[bucket, columns] - before
    value = start + (end - start) * ((rank - before) / inside)
    value = np.where((bucket == 0) & (end <= 0), end, value)
    return np.where(bucket == len(bounds) - 1, bounds[-2], value)


def _outside(q: Floats, inside: Floats) -> Floats:
    value = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, inside))
    return np.where(np.isnan(q), np.nan, value)
