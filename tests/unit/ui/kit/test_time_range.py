"""Stretches of time: what the address means, and when nothing changes in them any more."""

from zoneinfo import ZoneInfo

import pytest

from tests.ui.factories import NOW
from ui.kit import time_range
from ui.kit.time_range import TimeRange


def test_a_window_that_follows_the_clock_ends_now() -> None:
    assert TimeRange(900.0).bounds(NOW) == (NOW - 900, NOW)
    assert not TimeRange(900.0).is_past(NOW)


def test_a_held_window_stays_and_is_past_once_it_has_ended() -> None:
    held = TimeRange(60.0, NOW)
    assert held.bounds(NOW + 5000) == (NOW - 60, NOW)
    assert held.is_past(NOW)
    assert not held.is_past(NOW - 1)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"from": "2026-11-18T10:00:00Z"},
        {"from": "yesterday", "to": "now"},
        {"from": "2026-11-18T11:00:00Z", "to": "2026-11-18T10:00:00Z"},
        {"from": "0", "to": "1795000000"},
        {"from": "NaN", "to": "inf"},
    ],
)
def test_an_address_without_a_possible_stretch_names_none(params: dict[str, str]) -> None:
    assert time_range.from_address(params) is None


@pytest.mark.parametrize("end", ["2026-11-18T11:06:40Z", "1795000000", "2026-11-18T12:06:40+01:00"])
def test_a_moment_is_rfc_3339_or_unix_seconds(end: str) -> None:
    assert time_range.from_address({"from": "1794999100", "to": end}) == TimeRange(900.0, NOW)


def test_what_hold_writes_is_read_back() -> None:
    params = {"from": time_range.rfc3339(NOW - 60), "to": time_range.rfc3339(NOW)}
    assert time_range.from_address(params) == TimeRange(60.0, NOW)


def test_the_inputs_show_the_viewers_clock() -> None:
    assert time_range.local(NOW, ZoneInfo("Europe/Berlin")).isoformat() == "2026-11-18T12:06:00"
