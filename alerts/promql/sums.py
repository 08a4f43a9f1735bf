"""Accurate sums and means.

Plain addition is fast and usually accurate; where large terms cancel each other, the sum is computed again
exactly. Prometheus uses compensated summation for the same purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alerts.promql.label_sets import Integers
from alerts.promql.series import Floats

#: Below this fraction of the sum of magnitudes a plain sum may have lost more than a few digits.
_CANCELLED = 0.01


def exact_where_cancelled(plain: Floats, magnitude: Floats, terms: Callable[[int], Floats]) -> Floats:
    """Recompute cancelled sums of `plain` exactly. `magnitude`: the sums of |terms|; `terms(i)`: terms of sum i."""
    lost = np.isfinite(magnitude) & (np.abs(plain) < _CANCELLED * magnitude)
    for index in np.flatnonzero(lost):
        plain.flat[index] = math.fsum(terms(int(index)))
    return plain


def mean(total: Floats, counts: Integers, in_parts: Callable[[], Floats]) -> Floats:
    """total / counts; where the total overflowed, `in_parts`: the sum of the divided terms."""
    average = total / counts
    return np.where(np.isinf(average), in_parts(), average) if np.isinf(average).any() else average
