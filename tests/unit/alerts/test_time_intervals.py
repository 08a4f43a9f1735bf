"""Time intervals: when a route is muted or active."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from alerts.notify.config import load
from alerts.time_intervals import Schedule, TimeInterval, TimePeriod


def interval(text: str) -> TimeInterval:
    """The interval of a configuration."""
    config, errors = load(
        "route: {receiver: a, routes: [{matchers: [a=b], mute_time_intervals: [t]}]}\n"
        f"receivers: [{{name: a}}]\ntime_intervals: [{{name: t, time_intervals: [{text}]}}]\n"
    )
    assert config is not None, errors
    return config.route.routes[0].schedule.muted[0]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "moment", "inside"),
    [
        ("{}", "2024-02-29T12:00", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2024-01-01T09:00", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2024-01-01T16:59", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2024-01-01T17:00", False),
        ("{times: [{start_time: '17:00', end_time: '24:00'}]}", "2024-01-01T23:59", True),
        ("{weekdays: ['monday:friday']}", "2024-01-05T12:00", True),
        ("{weekdays: ['monday:friday']}", "2024-01-06T12:00", False),
        ("{weekdays: [Sunday]}", "2024-01-07T12:00", True),
        ("{days_of_month: ['-1']}", "2024-02-29T12:00", True),
        ("{days_of_month: ['-1']}", "2023-02-28T12:00", True),
        ("{days_of_month: ['-3:-2']}", "2024-01-31T12:00", False),
        ("{days_of_month: ['-3:-2']}", "2024-01-29T12:00", True),
        ("{days_of_month: ['31']}", "2024-04-30T12:00", False),
        ("{days_of_month: ['1:31']}", "2024-02-29T12:00", True),
        ("{days_of_month: ['30:31']}", "2024-02-29T12:00", False),
        ("{months: ['may:august', '12']}", "2024-06-01T00:00", True),
        ("{months: ['may:august', '12']}", "2024-12-01T00:00", True),
        ("{months: ['may:august', '12']}", "2024-09-01T00:00", False),
        ("{years: ['2020:2022', '2024']}", "2024-09-01T00:00", True),
        ("{years: ['2020:2022']}", "2024-09-01T00:00", False),
        (
            "{location: Australia/Sydney, times: [{start_time: '09:00', end_time: '17:00'}]}",
            "2024-01-01T23:00",
            True,
        ),
        (
            "{location: Australia/Sydney, times: [{start_time: '09:00', end_time: '17:00'}]}",
            "2024-01-01T12:00",
            False,
        ),
        ("{weekdays: [monday], months: [may]}", "2024-01-01T12:00", False),
    ],
)
def test_a_moment_is_inside_where_it_meets_every_field(text: str, moment: str, inside: bool) -> None:
    assert interval(text).contains(at(moment)) is inside


NIGHT, WEEKEND = (
    TimeInterval("night", (TimePeriod(times=((0, 360),)),)),
    TimeInterval("weekend", (TimePeriod(weekdays=((6, 6), (0, 0))),)),
)


@pytest.mark.parametrize(
    ("schedule", "moment", "names"),
    [
        (Schedule(), "2024-01-01T03:00", ()),
        (Schedule(muted=(NIGHT, WEEKEND)), "2024-01-01T03:00", ("night",)),
        (Schedule(muted=(NIGHT, WEEKEND)), "2024-01-01T12:00", ()),
        (Schedule(active=(WEEKEND,)), "2024-01-01T12:00", ("weekend",)),
        (Schedule(active=(NIGHT, WEEKEND)), "2024-01-06T12:00", ()),
        (Schedule(muted=(NIGHT,), active=(WEEKEND,)), "2024-01-06T03:00", ("night",)),
    ],
)
def test_a_route_is_quiet_inside_muted_and_outside_active_intervals(
    schedule: Schedule, moment: str, names: tuple[str, ...]
) -> None:
    assert schedule.muting(at(moment)) == names
