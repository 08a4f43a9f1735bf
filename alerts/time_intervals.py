"""Time intervals, as in Alertmanager: times of day, weekdays, days of the month, months and years in a time zone.

A route is muted in some intervals, or active only in some. Pure.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

#: First and last, both inclusive.
IntegerRange = tuple[int, int]


@dataclass(frozen=True)
class TimePeriod:
    """A moment is inside where it meets every field that is not empty.

    `times`: minutes of the day, the last exclusive. `weekdays`: Sunday is 0. Negative `days` count from the end of the
    month. `zone`: an IANA name, `Local`, or empty for UTC.
    """

    times: tuple[IntegerRange, ...] = ()
    weekdays: tuple[IntegerRange, ...] = ()
    days: tuple[IntegerRange, ...] = ()
    months: tuple[IntegerRange, ...] = ()
    years: tuple[IntegerRange, ...] = ()
    zone: str = ""

    def contains(self, at: float) -> bool:
        """Whether a moment (Unix seconds) is inside."""
        moment = _localized(at, self.zone)
        minute = moment.hour * 60 + moment.minute
        return (
            (not self.times or any(first <= minute < last for first, last in self.times))
            and _within(moment.isoweekday() % 7, self.weekdays)
            and _day_within(moment, self.days)
            and _within(moment.month, self.months)
            and _within(moment.year, self.years)
        )


def _localized(at: float, zone: str) -> datetime:
    if zone == "Local":
        return datetime.fromtimestamp(at).astimezone()
    return datetime.fromtimestamp(at, ZoneInfo(zone) if zone and zone != "UTC" else UTC)


def _within(number: int, ranges: tuple[IntegerRange, ...]) -> bool:
    return not ranges or any(first <= number <= last for first, last in ranges)


def _day_within(moment: datetime, ranges: tuple[IntegerRange, ...]) -> bool:
    """Whether the day is in a range; a range that exceeds the month is cut, one that lies outside never applies."""
    if not ranges:
        return True
    length = calendar.monthrange(moment.year, moment.month)[1]
    return any(
        _from_start(first, length) <= moment.day <= min(_from_start(last, length), length)
        for first, last in ranges
    )


def _from_start(day: int, length: int) -> int:
    return day if day > 0 else length + day + 1


@dataclass(frozen=True)
class TimeInterval:
    """Periods with a name; a moment is inside where one of them contains it."""

    name: str
    periods: tuple[TimePeriod, ...] = ()

    def contains(self, at: float) -> bool:
        """Whether a moment (Unix seconds) is inside."""
        return any(period.contains(at) for period in self.periods)


@dataclass(frozen=True)
class Schedule:
    """When a route notifies: not inside `muted`; where `active` is not empty, only inside one of them."""

    muted: tuple[TimeInterval, ...] = ()
    active: tuple[TimeInterval, ...] = ()

    def muting(self, at: float) -> tuple[str, ...]:
        """Names of the intervals for which the route does not notify now; empty if it does."""
        found = _containing(self.muted, at)
        if not found and self.active and not _containing(self.active, at):
            return tuple(interval.name for interval in self.active)
        return found


def _containing(intervals: Iterable[TimeInterval], at: float) -> tuple[str, ...]:
    return tuple(interval.name for interval in intervals if interval.contains(at))
