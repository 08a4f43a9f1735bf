"""Read `time_intervals` of the configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from alerts.time_intervals import IntegerRange, TimeInterval, TimePeriod
from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.tree import Node

WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
MONTHS = "january february march april may june july august september october november december".split()
_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00")
_PERIOD = ("times", "weekdays", "days_of_month", "months", "years", "location")


class IntervalReader(FieldReader):
    """Reads named intervals; `errors` grows."""

    def intervals(self, fields: Fields, name: str) -> list[TimeInterval]:
        """The intervals of a list, such as `time_intervals` of the configuration."""
        return [self._interval(node) for node in self.items(fields, name)]

    def _interval(self, node: Node) -> TimeInterval:
        fields = self.mapping(node, "a time interval", ("name", "time_intervals"))
        name = self.string(fields, "name")
        if name is None or not name.value:
            self.add_error(node.mark, "a time interval needs a name")
        periods = tuple(self.period(item) for item in self.items(fields, "time_intervals"))
        return TimeInterval(name.value if name else "", periods)

    def period(self, node: Node) -> TimePeriod:
        """An unnamed interval: an element of `time_intervals`."""
        fields = self.mapping(node, "an element of time_intervals", _PERIOD)
        return TimePeriod(
            times=tuple(filter(None, (self._times(item) for item in self.items(fields, "times")))),
            weekdays=self._ranges(fields, "weekdays", _weekday),
            days=self._ranges(fields, "days_of_month", _day, _check_days),
            months=self._ranges(fields, "months", _month),
            years=self._ranges(fields, "years", _year),
            zone=self.converted(fields, "location", _zone) or "",
        )

    def _times(self, node: Node) -> IntegerRange | None:
        fields = self.mapping(node, "an element of times", ("start_time", "end_time"))
        first, last = (self.converted(fields, name, _minute) for name in ("start_time", "end_time"))
        if fields and ("start_time" not in fields or "end_time" not in fields):
            self.add_error(node.mark, "both start_time and end_time must be set")
        if first is None or last is None:
            return None
        if first >= last:
            self.add_error(node.mark, "start_time must be before end_time")
        return first, last

    def _ranges(
        self,
        fields: Fields,
        name: str,
        convert: Callable[[str], int],
        check: Callable[[int, int], None] | None = None,
    ) -> tuple[IntegerRange, ...]:
        """Ranges such as `1:5` or `monday`."""
        found = []
        for text in self.strings(fields, name):
            first, colon, last = text.value.partition(":")
            try:
                bounds = convert(first.strip()), convert((last if colon else first).strip())
                (check or _check_order)(*bounds)
                found.append(bounds)
            except ValueError as error:
                self.add_error(text.mark, f"{name}: {error}")
        return tuple(found)


def _check_order(first: int, last: int) -> None:
    if first > last:
        raise ValueError("the range ends before it begins")


def _check_days(first: int, last: int) -> None:
    """The end must not lie before the start in the shortest month."""
    if first < 0 < last:
        raise ValueError("a range that begins with a negative day must end with one")
    shortest = 28
    _check_order(*(day if day > 0 else shortest + day for day in (first, last)))


def _minute(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is not a time from 00:00 to 24:00")
    return int(text[:2]) * 60 + int(text[3:])


def _weekday(text: str) -> int:
    if text.lower() not in WEEKDAYS:
        raise ValueError(f"{text[:20]!r} is not a weekday such as 'monday'")
    return WEEKDAYS.index(text.lower())


def _month(text: str) -> int:
    if text.lower() in MONTHS:
        return MONTHS.index(text.lower()) + 1
    return _bounded(text, 1, 12, "a month")


def _day(text: str) -> int:
    day = _bounded(text, -31, 31, "a day of the month")
    if day == 0:
        raise ValueError("0 is not a day of the month")
    return day


def _year(text: str) -> int:
    return _bounded(text, 0, 9999, "a year")


def _bounded(text: str, least: int, most: int, what: str) -> int:
    if not re.fullmatch(r"-?\d{1,4}", text) or not least <= int(text) <= most:
        raise ValueError(f"{text[:20]!r} is not {what}")
    return int(text)


def _zone(text: str) -> str:
    try:
        if text not in ("Local", "UTC", ""):
            ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{text[:60]!r} is not a time zone such as 'Europe/Berlin'") from None
    return text
