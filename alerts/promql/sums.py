"""Sums and means that keep their digits.

Plain additions are fast and mostly right to the last digits; where large terms cancelled each other the
sum is done again exactly. Prometheus reaches the same with compensated summation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alerts.promql.rows import Integers
from alerts.promql.series import Floats

#: Below this part of the sum of magnitudes a plain sum may have lost more than a few digits.
_CANCELLED = 0.01


def exact_where_cancelled(plain: Floats, magnitude: Floats, terms: Callable[[int], Floats]) -> Floats:
    """`plain` sums, those that cancelled done again. `magnitude`: the sum of |terms|; `terms(i)`: of sum i."""
    lost = np.isfinite(magnitude) & (np.abs(plain) < _CANCELLED * magnitude)
    for index in np.flatnonzero(lost):
        plain.flat[index] = math.fsum(terms(int(index)))
    return plain


def mean(total: Floats, counts: Integers, in_parts: Callable[[], Floats]) -> Floats:
    """total / counts; where the total has overflowed `in_parts`, the sum of terms each divided, is used."""
    average = total / counts
    return np.where(np.isinf(average), in_parts(), average) if np.isinf(average).any() else average
