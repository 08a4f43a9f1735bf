"""Time ranges: the ones in the address, and when nothing changes in them any more."""

from zoneinfo import ZoneInfo

import pytest

from tests.ui import factories
from tests.ui.factories import NOW
from ui.kit import time_range
from ui.kit.time_range import TimeRange


def test_a_range_that_follows_the_clock_ends_now() -> None:
    assert TimeRange(900.0).bounds(NOW) == (NOW - 900, NOW)
    assert not TimeRange(900.0).is_past(NOW)


def test_a_pinned_range_stays_and_is_past_once_it_has_ended() -> None:
    pinned = TimeRange(60.0, NOW)
    assert pinned.bounds(NOW + 5000) == (NOW - 60, NOW)
    assert pinned.is_past(NOW)
    assert not pinned.is_past(NOW - 1)


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
def test_an_impossible_range_in_the_address_is_ignored(params: dict[str, str]) -> None:
    assert time_range.from_address(params) is None


@pytest.mark.parametrize("end", ["2026-11-18T11:06:40Z", "1795000000", "2026-11-18T12:06:40+01:00"])
def test_a_time_is_rfc_3339_or_unix_seconds(end: str) -> None:
    assert time_range.from_address({"from": "1794999100", "to": end}) == TimeRange(900.0, NOW)


def test_a_pinned_range_is_read_back() -> None:
    params = {"from": time_range.to_rfc3339(NOW - 60), "to": time_range.to_rfc3339(NOW)}
    assert time_range.from_address(params) == TimeRange(60.0, NOW)


def test_the_inputs_show_the_viewers_clock() -> None:
    assert time_range.local(NOW, ZoneInfo("Europe/Berlin")).isoformat() == "2026-11-18T12:06:00"


@pytest.mark.parametrize(
    ("status", "age", "expected"),
    [
        ("failed", 7200.0, (NOW - 7200 + 60 - 900, NOW - 7200 + 60)),
        ("failed", 300.0, None),  # the default range shows it
        ("running", 7200.0, None),
    ],
)
def test_the_last_activity_of_an_ended_query_is_the_range_before_its_end(
    status: str, age: float, expected: tuple[float, float] | None
) -> None:
    query = factories.fleet_query(1, status=status, last_progress_at=factories.rfc3339(NOW - age))
    assert time_range.last_activity(query, NOW) == expected
