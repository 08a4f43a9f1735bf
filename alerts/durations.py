"""Convert between seconds and Prometheus durations: `1h30m`, `250ms`, `0`.

Used by rule files, routes and templates. Units come largest first, each at most once.
"""

from __future__ import annotations

import re

DAY_SECONDS = 86_400.0

_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_SECONDS = (31_536_000.0, 604_800.0, 86_400.0, 3600.0, 60.0, 1.0, 0.001)
_UNITS = ("y", "w", "d", "h", "m", "s", "ms")
#: Prometheus stores nanoseconds in 63 bits: about 292 years.
MAX_DURATION_SECONDS = 9_223_372_036.0


def parse_duration(text: str) -> float:
    """`1h30m` → 5400.0 seconds. Raises ValueError with a message for the author."""
    if text == "0":
        return 0.0
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"{text[:40]!r} is not a valid duration; write for example 30s, 5m or 1h30m")
    seconds = sum(
        float(number) * unit for number, unit in zip(found.groups(), _SECONDS, strict=True) if number
    )
    if seconds > MAX_DURATION_SECONDS:
        raise ValueError(f"{text[:40]!r} exceeds the longest duration, 292 years")
    return seconds


def format_duration(seconds: float) -> str:
    """5400.0 → `1h30m`, as Prometheus prints it: years and weeks only without remainder; `0s` for zero."""
    left = round(seconds * 1000)
    if left == 0:
        return "0s"
    parts = []
    for unit, size in zip(_UNITS, _SECONDS, strict=True):
        length = round(size * 1000)
        if unit in ("y", "w") and left % length:
            continue
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
