"""Formatting of numbers, durations and times."""

from zoneinfo import ZoneInfo

import pytest

from ui.kit import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (float("nan"), "–"), ("x", "–"), (True, "–"), (0, "0"), (7, "7"), (999, "999"),
        (999.9, "1k"), (1234, "1.23k"), (12_345, "12.3k"), (184_000, "184k"), (1_240_000, "1.24M"),
        (3.2e9, "3.2G"), (5e12, "5T"), (-1500, "-1.5k"),
        (1 / 60, "0.017"), (1 / 300, "0.0033"), (0.0949, "0.095"), (0.096, "0.1"), (1e-6, "<0.001"),
    ],
)  # fmt: skip
def test_counts_have_three_digits_and_a_letter(value: object, text: str) -> None:
    assert units.count(value) == text


def test_a_count_and_a_rate_carry_their_unit_only_when_known() -> None:
    assert units.count(1200, "rows") == "1.2k rows"
    assert units.count(None, "rows") == "–"
    assert units.rate(1893.4) == "1.89k/s"
    assert units.rate(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (512, "512 B"), (2880, "2.88 kB"), (96e6, "96 MB"), (3.4e9, "3.4 GB"), (None, "–")],
)
def test_sizes_are_in_powers_of_ten(value: object, text: str) -> None:
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"), (0.688, "688 ms"), (1, "1 s"), (1.5, "1.5 s"), (42, "42 s"), (59.96, "1 min"),
        (60, "1 min"), (61, "1 min 1 s"), (750, "12 min 30 s"), (3600, "1 h"), (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"), (-5, "-5 s"), (None, "–"),
    ],
)  # fmt: skip
def test_durations_name_at_most_two_units(seconds: object, text: str) -> None:
    assert units.span(seconds) == text


def test_a_time_is_read_in_both_formats_of_the_api() -> None:
    assert units.moment("2026-11-18T10:26:40Z") == 1_794_997_600
    assert units.moment(units.moment("2026-11-18T11:26:40+01:00")) == units.moment("2026-11-18T10:26:40")
    assert units.moment("1795000000.5") == 1_795_000_000.5
    assert units.moment("yesterday") is None
    assert units.moment(None) is None


def test_a_clock_shows_the_date_only_when_it_is_not_todays() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert units.clock("2026-11-18T10:26:40Z", berlin, units.moment("2026-11-18T12:00:00Z")) == "11:26:40"
    shown = units.clock("2026-11-17T10:26:40Z", berlin, units.moment("2026-11-18T12:00:00Z"))
    assert shown == "2026-11-17 11:26:40"
    assert units.clock(None) == "–"


def test_since_is_never_negative() -> None:
    assert units.since(100.0, 90.0) == 0
    assert units.since(None, 90.0) is None


@pytest.mark.parametrize(
    ("largest", "kind", "divisor", "unit"),
    [
        (500, "rows", 1, ""), (2_400, "rows", 1e3, "k"), (9e6, "bytes", 1e6, "MB"), (10, "bytes", 1, "B"),
        (0.6, "seconds", 1e-3, "ms"), (12, "seconds", 1, "s"), (900, "seconds", 60, "min"),
        (20_000, "seconds", 3600, "h"), (0, "seconds", 1e-3, "ms"),
        (0.9, "ratio", 0.01, "%"),
    ],
)  # fmt: skip
def test_an_axis_has_small_numbers_and_a_unit(largest: float, kind: str, divisor: float, unit: str) -> None:
    assert units.axis(largest, kind) == (divisor, unit)
