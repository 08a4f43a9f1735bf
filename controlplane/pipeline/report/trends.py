"""Robust trends of daily figures: Sen's slope with its interval, and forecasts. Pure; numpy only.

Called by `controlplane.pipeline.report.report_stats`. The slope is the median of the slopes of all pairs of
days, so that a few outliers do not decide; the interval is Sen's, from Kendall's variance. It assumes
independent days, and hundreds of queries are tested: the displayed interval is of 95 %, but a trend is
reported only at 99.9 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DailyFigures = npt.NDArray[np.float64]

#: Days needed for a trend.
MIN_DAYS = 7
NORMAL_95, NORMAL_999 = 1.959964, 3.290527
#: A trend that changes a figure by less than this share of its level in thirty days is not reported.
MIN_RELATIVE_CHANGE = 0.05
FORECAST_DAYS = 30.0


@dataclass(frozen=True)
class DailyTrend:
    """Slope per day, in the unit of the figure. `level`: fitted value at the last day; `low`, `high`: bounds
    of the slope.

    `sure`: whether the 99.9 % interval excludes 0.
    """

    slope: float
    low: float
    high: float
    level: float
    days: int
    sure: bool

    @property
    def direction(self) -> str:
        """`up`, `down` or `none`: the slope must be significant and material."""
        material = abs(self.slope) * FORECAST_DAYS >= MIN_RELATIVE_CHANGE * max(abs(self.level), 1e-9)
        if not material or not self.sure:
            return "none"
        return "up" if self.slope > 0 else "down"

    def ahead(self, days: float) -> tuple[float, float, float]:
        """The figure `days` after the last: expected, lowest, highest. Never below 0."""
        expected, low, high = (
            max(0.0, self.level + slope * days) for slope in (self.slope, self.low, self.high)
        )
        return expected, low, high


@dataclass(frozen=True)
class LimitForecast:
    """Days from the last one until a limit is reached. `late`: None when it may never be reached."""

    days: float
    early: float
    late: float | None


def fit_trend(days: DailyFigures, values: DailyFigures) -> DailyTrend | None:
    """The trend of values by day, ignoring NaN. None: too few days."""
    known = np.isfinite(days) & np.isfinite(values)
    days, values = days[known], values[known]
    if len(days) < MIN_DAYS:
        return None
    first, second = np.triu_indices(len(days), 1)
    distances = days[second] - days[first]
    slopes = np.sort(((values[second] - values[first])[distances != 0]) / distances[distances != 0])
    slope = float(np.median(slopes))
    low, high = _interval(slopes, len(days), NORMAL_95)
    lowest, highest = _interval(slopes, len(days), NORMAL_999)
    level = float(np.median(values - slope * (days - days.max())))
    return DailyTrend(slope, low, high, level, len(days), not lowest <= 0 <= highest)


def _interval(slopes: DailyFigures, days: int, deviations: float) -> tuple[float, float]:
    wide = deviations * np.sqrt(days * (days - 1) * (2 * days + 5) / 18)
    low = max(0, round((len(slopes) - wide) / 2))
    high = min(len(slopes) - 1, round((len(slopes) + wide) / 2))
    return float(slopes[low]), float(slopes[high])


def forecast_limit(fitted: DailyTrend | None, limit: float) -> LimitForecast | None:
    """When a growing figure reaches a limit. None where it does not grow or the trend is unknown."""
    if fitted is None or fitted.direction != "up":
        return None
    left = max(0.0, limit - fitted.level)
    return LimitForecast(
        left / fitted.slope, left / fitted.high, left / fitted.low if fitted.low > 0 else None
    )
