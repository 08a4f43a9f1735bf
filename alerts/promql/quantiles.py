"""Quantiles as in Prometheus: NaN sorts first, neighbors are interpolated."""

from __future__ import annotations

import numpy as np

from alerts.promql.label_sets import Integers
from alerts.promql.series import Floats


def quantiles(q: Floats, ordered: Floats, starts: Integers, counts: Integers) -> Floats:
    """The q-quantiles of runs of `ordered` along its first axis; each run is sorted and not empty.

    ±Inf for q outside 0..1, NaN for q NaN.
    """
    rank = np.where(np.isfinite(q), q, 0.0) * (counts - 1)
    lower = np.clip(np.floor(rank), 0, counts - 1).astype(np.int64)
    upper = np.clip(lower + 1, 0, counts - 1)
    weight = rank - np.floor(rank)
    below, above = (_at(ordered, starts + index) for index in (lower, upper))
    found = below * (1 - weight) + above * weight
    found = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, found))
    return np.where(np.isnan(q), np.nan, found)


def _at(ordered: Floats, index: Integers) -> Floats:
    return ordered[index] if ordered.ndim == 1 else np.take_along_axis(ordered, index, axis=0)
