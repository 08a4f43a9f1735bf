"""Format figures for people: `12,400 rows`, `3 min 20 s`, `05:37 UTC`.

Verdicts, advice and messages use these functions, so pages, logs and commands show a figure the same way.
They accept every float: a value that is not finite becomes "unknown".
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def number(value: float) -> str:
    """A whole number with thousands separators: `12,400`."""
    return f"{value:,.0f}" if math.isfinite(value) else "unknown"


def rows(value: float) -> str:
    """A count of rows: `12,400 rows`, `1 row`."""
    if not math.isfinite(value):
        return "an unknown number of rows"
    return f"{number(value)} row" + ("" if round(value) == 1 else "s")


def offsets(value: float) -> str:
    """A distance between offsets that do not count rows: `12 offsets`, `1 offset`."""
    return rows(value).replace("row", "offset", 1) if math.isfinite(value) else "an unknown number of offsets"


def span(seconds: float) -> str:
    """A duration in its two largest units: `0.7 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if not math.isfinite(seconds):
        return "an unknown time"
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    whole = round(seconds)
    for size, unit, small, small_unit in _UNITS:
        if whole >= size:
            large, rest = divmod(round(whole / small), size // small)
            return f"{large} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def clock(at: float, now: float) -> str:
    """A time of day: `05:37 UTC`, with the date `2026-11-19 05:37 UTC` when it is another day than `now`."""
    try:
        moment, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
    return moment.strftime("%H:%M UTC" if moment.date() == today.date() else "%Y-%m-%d %H:%M UTC")
