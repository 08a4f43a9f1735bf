"""Functions of single samples: mathematics, clamping, calendar.

`ELEMENTWISE` maps a name to a function of values (rows, steps) and scalars (one per step). All drop the metric name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from alerts.promql.label_sets import Integers
from alerts.promql.series import Floats


def _sign(values: Floats) -> Floats:
    return np.where(values == 0, values, np.sign(values))


def _lesser(floats: Floats, other: Floats) -> Floats:
    """Minimum as in Go: -Inf is less than NaN, which is less than all other values."""
    return np.where((floats == -np.inf) | (other == -np.inf), -np.inf, np.minimum(floats, other))


def _greater(floats: Floats, other: Floats) -> Floats:
    return -_lesser(-floats, -other)


def _rounded(values: Floats, to: Floats | float = 1.0) -> Floats:
    """Round to the nearest multiple of `to`; ties round up."""
    inverse = 1 / np.asarray(to)
    return np.floor(values * inverse + 0.5) / inverse


# -- the calendar, UTC; values are Unix seconds ------------------------------------------------------

#: Beyond this (about 30 million years) calendar functions return NaN.
_MAX_CALENDAR_SECONDS = 1e15
Moments = NDArray[np.datetime64]


def _calendar(part: Callable[[Moments], Integers]) -> Callable[[Floats], Floats]:
    def of_values(values: Floats) -> Floats:
        known = np.abs(values) < _MAX_CALENDAR_SECONDS
        moments = np.where(known, values, 0).astype(np.int64).astype("M8[s]")
        return np.where(known, part(moments), np.nan)

    return of_values


def _in(moments: Moments, unit: str, within: str) -> Integers:
    """Index (from 0) of the `unit` within its `within`, such as the hour within the day."""
    return (moments.astype(f"M8[{unit}]") - moments.astype(f"M8[{within}]")).astype(np.int64)


def _weekday(moments: Moments) -> Integers:
    return (moments.astype("M8[D]").astype(np.int64) + 4) % 7


def _days_in_month(moments: Moments) -> Integers:
    month = moments.astype("M8[M]")
    return ((month + 1).astype("M8[D]") - month.astype("M8[D]")).astype(np.int64)


CALENDAR: dict[str, Callable[[Floats], Floats]] = {
    "day_of_month": _calendar(lambda t: _in(t, "D", "M") + 1),
    "day_of_week": _calendar(_weekday),
    "day_of_year": _calendar(lambda t: _in(t, "D", "Y") + 1),
    "days_in_month": _calendar(_days_in_month),
    "hour": _calendar(lambda t: _in(t, "h", "D")),
    "minute": _calendar(lambda t: _in(t, "m", "h")),
    "month": _calendar(lambda t: _in(t, "M", "Y") + 1),
    "year": _calendar(lambda t: t.astype("M8[Y]").astype(np.int64) + 1970),
}

ELEMENTWISE: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "clamp": lambda values, low, high: _greater(low, _lesser(high, values)),
    "clamp_max": _lesser,
    "clamp_min": _greater,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": np.rad2deg,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": np.deg2rad,
    "round": _rounded,
    "sgn": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    **CALENDAR,
}
