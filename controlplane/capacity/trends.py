"""Robust slopes: the median of the slopes between all pairs of points (Theil-Sen), with Sen's interval. Pure.

`growth` is stricter, because sizes of state are no independent observations: a random walk, or a window that is filled
and evicted, has a slope as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from controlplane.capacity.model import Slope

Point = tuple[float, float]
MAX_POINTS = 120
#: A trend needs so many points over so many seconds.
MIN_POINTS, MIN_SECONDS = 12, 120.0
PARTS = 4
#: Quantile of the normal distribution: 95 % of the slopes are within the interval.
NORMAL = 1.96


def slope(points: Sequence[Point]) -> Slope | None:
    """The slope through (x, y); None with fewer than three different x, or figures that are not finite."""
    thinned = thin(points)
    if len(thinned) < 3:
        return None
    x, y = np.array(thinned, dtype=np.float64).T
    with np.errstate(all="ignore"):
        slopes = _pairs(x, y)
    return _with_interval(slopes, len(thinned)) if len(slopes) >= 3 and np.isfinite(slopes).all() else None


def thin(points: Sequence[Point]) -> Sequence[Point]:
    """At most MAX_POINTS of the points, evenly, with the first and the last."""
    if len(points) <= MAX_POINTS:
        return points
    step = (len(points) - 1) / (MAX_POINTS - 1)
    return [points[round(i * step)] for i in range(MAX_POINTS)]


def _pairs(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    apart = run != 0
    return np.sort((y[second] - y[first])[apart] / run[apart])


def _with_interval(slopes: npt.NDArray[np.float64], count: int) -> Slope:
    spread = NORMAL * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def is_enough(points: Sequence[Point]) -> bool:
    """Whether these points suffice to claim a trend, or that there is none."""
    finite = all(math.isfinite(at) and math.isfinite(size) for at, size in points)
    return finite and len(points) >= MIN_POINTS and points[-1][0] - points[0][0] >= MIN_SECONDS


def growth(points: Sequence[Point]) -> Slope | None:
    """By how much a size grows a second; None where it does not clearly grow.

    It does if it grows in each quarter of the time, and is in the last quarter never as small as in the first. The
    interval includes the slopes of the quarters: growth that changes has a wide one.
    """
    if not is_enough(points):
        return None
    quarters = _quarters(points)
    if min(len(quarter) for quarter in quarters) < 3:
        return None
    found = [slope(part) for part in (points, *quarters)]
    if not min(y for _, y in quarters[-1]) > max(y for _, y in quarters[0]):
        return None
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    values = [each.value for each in known]
    low, high = min(known[0].low, *values), max(known[0].high, *values)
    return Slope(values[0], low, high) if low > 0 else None


def _quarters(points: Sequence[Point]) -> list[list[Point]]:
    began, length = points[0][0], (points[-1][0] - points[0][0]) / PARTS
    places = [min(PARTS - 1, int((at - began) / length)) for at, _ in points]
    return [
        [point for point, at in zip(points, places, strict=True) if at == quarter] for quarter in range(PARTS)
    ]
