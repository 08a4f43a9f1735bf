"""Text for a terminal."""

from __future__ import annotations

import pytest

from controlplane.console.tables import age, backlog, figure, plain, table


def test_columns_line_up() -> None:
    assert table(("A", "LONG"), [("x", 1), ("yyy", None)]) == "A    LONG\nx    1\nyyy  -"


def test_nothing_reaches_the_terminal_that_it_would_obey() -> None:
    assert plain("\x1b[31mred\x07\n\u202etxt") == " [31mred   txt"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0, "0"),
        (1e-9, "<0.001"),
        (1 / 60, "0.017"),
        (0.0999, "0.1"),
        (12.34, "12.3"),
        (12_345, "12.3k"),
        (1_200_000, "1.2M"),
    ],
)
def test_figures_are_short(value: float | None, expected: str) -> None:
    assert figure(value) == expected


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        (None, "-"),
        ("2026-11-18T11:06:00.000Z", "40 s"),
        ("2026-11-18T10:56:40Z", "10 min"),
        ("2026-11-18T06:06:40Z", "5 h"),
        ("2026-11-08T10:26:40Z", "10 d"),
        ("2027-01-01T00:00:00Z", "0 s"),
    ],
)
def test_durations_are_short(stamp: str | None, expected: str) -> None:
    assert age(stamp, 1_795_000_000.0) == expected


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"lag_rows": 12_345, "lag_batches": 2}, "12.3k"),
        ({"lag_rows": None, "lag_batches": 2.5}, "2.5 batches"),
        ({"lag_rows": None, "lag_batches": 1}, "1 batch"),
        ({"lag_rows": None}, "-"),
    ],
)
def test_a_backlog_is_in_rows_else_in_batches(query: dict[str, float | None], text: str) -> None:
    assert backlog(query) == text
