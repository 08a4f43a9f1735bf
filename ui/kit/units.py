"""Format numbers for people: 1.2k rows, 3.4 GB, 688 ms, 2 h 5 min.

Pure. An unknown value is an en dash, never 0. Powers are of ten throughout (1 GB = 10⁹ bytes).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo

UNKNOWN = "–"
MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60.0, 3600.0, 86_400.0
_POWERS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = ((DAY_SECONDS, "d"), (HOUR_SECONDS, "h"), (MINUTE_SECONDS, "min"))


def number(value: object) -> float | None:
    """The value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except ValueError:
        return None
    return result if math.isfinite(result) else None


def count(value: object, unit: str = "") -> str:
    """`950`, `1.2k`, `34M`; with a unit, `1.2k rows`."""
    known = number(value)
    if known is None:
        return UNKNOWN
    for power, letter in _POWERS:
        if abs(known) >= power * 0.9995:
            return f"{_digits(known / power)}{letter}{unit and ' ' + unit}"
    return f"{_digits(known)}{unit and ' ' + unit}"


def size(value: object) -> str:
    """`512 B`, `2.9 kB`, `3.4 GB`."""
    known = number(value)
    if known is None:
        return UNKNOWN
    text = count(known)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def rate(value: object) -> str:
    """`1.2k/s`."""
    return UNKNOWN if number(value) is None else f"{count(value)}/s"


def span(value: object) -> str:
    """Seconds as `688 ms`, `1.5 s`, `42 s`, `12 min 30 s`, `3 h 5 min`, `2 d 4 h`."""
    seconds = number(value)
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{_digits(seconds)} s"
    return _two_units(round(seconds))


def _two_units(seconds: int) -> str:
    for index, (length, name) in enumerate(_SPANS):
        if seconds >= length:
            smaller, smaller_name = _SPANS[index + 1] if index + 1 < len(_SPANS) else (1.0, "s")
            rest = int(seconds % length // smaller)
            head = f"{int(seconds // length)} {name}"
            return f"{head} {rest} {smaller_name}" if rest else head
    return f"{seconds} s"


def moment(value: object) -> float | None:
    """Unix seconds from a time in the API's formats: RFC 3339 or Unix seconds."""
    if isinstance(value, str) and number(value) is None:
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    return number(value)


def clock(value: object, zone: tzinfo = UTC, now: float | None = None) -> str:
    """`14:03:22`, preceded by the date if it is not the date of `now`."""
    at = moment(value)
    if at is None:
        return UNKNOWN
    read = datetime.fromtimestamp(at, zone)
    today = now is None or datetime.fromtimestamp(now, zone).date() == read.date()
    return read.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def since(value: object, now: float) -> float | None:
    """Seconds from that time to `now`; never negative, because two clocks differ slightly."""
    at = moment(value)
    return None if at is None else max(0.0, now - at)


def axis(largest: float, kind: str) -> tuple[float, str]:
    """Divisor and unit that give a chart's axis small numbers. `kind` is "rows", "bytes", "seconds" or "ratio"."""
    if kind == "ratio":
        return 0.01, "%"
    if kind == "seconds":
        for length, name in (*_SPANS, (1.0, "s")):
            if largest >= (length if name == "s" else 3 * length):
                return length, name
        return 1e-3, "ms"
    for power, letter in _POWERS:
        if largest >= power:
            return power, f"{letter}B" if kind == "bytes" else letter
    return 1.0, "B" if kind == "bytes" else ""


def _digits(value: float) -> str:
    """At most three digits, no trailing zeros: 1.23, 12.3, 123, 5; two digits below 0.1: 0.017."""
    if 0 < abs(value) < 0.095:
        return f"{value:.2g}" if abs(value) >= 0.001 else "<0.001" if value > 0 else ">-0.001"
    places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
