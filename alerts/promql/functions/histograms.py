"""`histogram_quantile` of classic histograms, whose buckets have the label `le`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.rows import Groups, SampleRows
from alerts.promql.series import Floats

BOUND = "le"
#: Buckets may fall by so small a part without it meaning anything: floating point, not a broken histogram.
_NOISE = 1e-12


def histogram_quantile(q: Floats, rows: SampleRows) -> SampleRows:
    """`q`: one a step. Rows without a readable `le` are left out."""
    bounds = np.array([_bound(labels) for labels in rows.labels])
    rows, bounds = rows.take(np.flatnonzero(~np.isnan(bounds))), bounds[~np.isnan(bounds)]
    labels = [{name: text for name, text in label.items() if name != BOUND} for label in rows.labels]
    groups = Groups(frozenset(label.items()) for label in labels)
    values = np.zeros((len(groups), rows.steps))
    present = np.zeros((len(groups), rows.steps), bool)
    for group in range(len(groups)):
        buckets = np.flatnonzero(groups.of == group)
        for columns in _alike(rows.present[buckets]):
            there = buckets[rows.present[buckets, columns[0]]]
            present[group, columns] = len(there) > 0
            if len(there):
                counts = rows.values[np.ix_(there, columns)]
                values[group, columns] = _quantile(q[columns], bounds[there], counts)
    return SampleRows([labels[i] for i in groups.first], values, present).without_name()


def _bound(labels: Labels) -> float:
    """The upper bound of a bucket; NaN where there is none."""
    try:
        return float(labels.get(BOUND, "").replace("_", "x"))
    except ValueError:
        return np.nan


def _alike(present: np.ndarray) -> Sequence[np.ndarray]:
    """Steps put together by which buckets are there; nearly always one set."""
    patterns = Groups(column.tobytes() for column in np.ascontiguousarray(present.T))
    return [np.flatnonzero(patterns.of == pattern) for pattern in range(len(patterns))]


def _quantile(q: Floats, bounds: Floats, counts: Floats) -> Floats:
    """Quantiles of histograms with the same bounds; `counts` is (buckets, histograms), cumulative."""
    bounds, inverse = np.unique(bounds, return_inverse=True)
    summed = np.zeros((len(bounds), counts.shape[1]))
    np.add.at(summed, inverse, counts)
    if len(bounds) < 2 or bounds[-1] != np.inf:
        return _outside(q, np.full(len(q), np.nan))
    counts = _rising(summed)
    total = counts[-1]
    rank = q * total
    bucket = np.minimum((counts[:-1] < rank).sum(axis=0), len(bounds) - 1)
    return _outside(q, np.where(total == 0, np.nan, _interpolated(rank, bucket, bounds, counts)))


def _rising(counts: Floats) -> Floats:
    """Counts that never fall, as those of buckets must; tiny differences are taken for none."""
    result = counts.copy()
    for row in range(1, len(result)):
        before, now = result[row - 1], result[row]
        with np.errstate(invalid="ignore"):
            same = np.abs(now - before) <= _NOISE * (np.abs(now) + np.abs(before))
        result[row] = np.where(same | (now < before), before, now)
    return result


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
