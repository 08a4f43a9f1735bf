"""Go's time layouts (`15:04:05 MST`) for `date`, `tz` and the methods of times in templates."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DEFAULT_LAYOUT = "2006-01-02 15:04:05.999999999 -0700 MST"
_ELEMENT = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00|Z0700|-07:00|-0700|-07|01|02|03|04|05|06|15|PM|pm|_2|[.,](?:0+|9+)(?!\d)"
    r"|1|2|3|4|5"
)
_PLAIN = {
    "January": "%B",
    "Jan": "%b",
    "Monday": "%A",
    "Mon": "%a",
    "2006": "%Y",
    "06": "%y",
    "01": "%m",
    "02": "%d",
    "15": "%H",
    "03": "%I",
    "04": "%M",
    "05": "%S",
    "PM": "%p",
    "-0700": "%z",
}


def format_time(moment: datetime, layout: str) -> str:
    """Format a time by a Go layout: `02 Jan 2006 15:04`."""
    return _ELEMENT.sub(lambda found: _element(moment, found[0]), layout)


def _element(moment: datetime, element: str) -> str:
    if element in _PLAIN:
        return moment.strftime(_PLAIN[element])
    if element[0] in ".,":
        return _fraction(moment, element)
    hour = moment.hour % 12 or 12
    numbers = {"1": moment.month, "2": moment.day, "3": hour, "4": moment.minute, "5": moment.second}
    if element in numbers:
        return str(numbers[element])
    if element == "_2":
        return f"{moment.day:2d}"
    if element == "MST":
        return moment.tzname() or "UTC"
    return moment.strftime("%p").lower() if element == "pm" else _offset(moment, element)


def _fraction(moment: datetime, element: str) -> str:
    """Digits of the second; nines omit trailing zeros."""
    digits = f"{moment.microsecond:06d}000"[: len(element) - 1]
    if element[1] == "9":
        digits = digits.rstrip("0")
    return element[0] + digits if digits else ""


def _offset(moment: datetime, element: str) -> str:
    """The zone's offset; layouts with Z write `Z` for UTC."""
    if element[0] == "Z" and not moment.utcoffset():
        return "Z"
    text = moment.strftime("%z") or "+0000"
    if element == "-07":
        return text[:3]
    return f"{text[:3]}:{text[3:5]}" if ":" in element else text[:5]


def in_zone(name: str, moment: datetime) -> datetime:
    """The time in an IANA zone. Raises ValueError for an unknown one."""
    try:
        return moment.astimezone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name[:60]!r}") from None


def format_span(span: timedelta) -> str:
    """A span as Go prints it: `1h2m3.5s`."""
    seconds = abs(span.total_seconds())
    sign = "-" if span < timedelta() else ""
    if 0 < seconds < 1:
        small = f"{seconds * 1000:g}ms" if seconds >= 0.001 else f"{seconds * 1e6:g}µs"
        return sign + small
    minutes, left = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{round(left, 6):g}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text
