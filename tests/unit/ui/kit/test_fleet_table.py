"""The fleet as Arrow: numbers stay numbers, unknown values stay missing, alerts carry a color."""

import pandas as pd
import pytest

from tests.ui import factories
from tests.ui.factories import NOW
from ui.kit import fleet_table
from ui.kit.statuses import HEX_COLORS


def first_row(**overrides: object) -> pd.Series:
    return fleet_table.fleet([factories.fleet_query(1, **overrides)], NOW).to_pandas().iloc[0]


def test_a_row_holds_numbers_durations_and_trends() -> None:
    row = first_row(lag_seconds=26.44)
    assert list(row["status"]) == ["Running"]
    assert (row["query"], row["app"], row["lag_rows"]) == ("query-1", "orders", 40.0)
    assert row["lag"] == pd.Timedelta(seconds=26)
    assert row["age"] == pd.Timedelta(seconds=4)
    assert len(row["batch_trend"]) == fleet_table.TREND_POINTS


def test_unknown_values_are_missing_and_not_zero() -> None:
    table = fleet_table.fleet([{"query_id": factories.query_id(1), "lag_rows": None, "recent": None}], NOW)
    row = table.to_pylist()[0]
    assert [row[name] for name in ("lag_rows", "lag", "age", "input", "batch", "state_rows")] == [None] * 6
    assert row["lag_trend"] == []
    assert row["query"] == factories.query_id(1)[:8]


def test_an_empty_fleet_is_an_empty_table_with_all_columns() -> None:
    full = fleet_table.fleet([factories.fleet_query(1)], NOW)
    assert fleet_table.fleet([], NOW).schema == full.schema


def test_an_ended_query_has_no_input_rate() -> None:
    assert pd.isna(first_row(status="failed")["input"])


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.84, 0.8), (42.4, 42), (725.0, 720), (90_100.0, 90_000), (None, None)]
)
def test_a_duration_is_as_precise_as_people_read_it(seconds: float | None, shown: float | None) -> None:
    lag = first_row(lag_seconds=seconds)["lag"]
    assert pd.isna(lag) if shown is None else lag == pd.Timedelta(seconds=shown)


@pytest.mark.parametrize(
    ("count", "severity", "badge", "color"),
    [
        (0, None, "", ""),
        (1, "critical", "1 critical", HEX_COLORS["red"]),
        (3, "warning", "3 warning", HEX_COLORS["orange"]),
        (2, None, "2 firing", HEX_COLORS["red"]),
        (2, "<b>odd</b>", "2 firing", HEX_COLORS["red"]),
        (400, "info", "20+ info", HEX_COLORS["blue"]),
    ],
)
def test_alerts_are_counted_in_the_color_of_the_worst(
    count: int, severity: str | None, badge: str, color: str
) -> None:
    shown = fleet_table.alert_badge({"alerts": count, "alert_severity": severity})
    assert shown == badge
    assert fleet_table.alert_badges().get(shown, "") == color


def test_rows_are_taken_in_the_order_asked_for() -> None:
    table = fleet_table.fleet([factories.fleet_query(n) for n in range(4)], NOW)
    assert fleet_table.rows(table, [3, 1])["query"].to_pylist() == ["query-3", "query-1"]
    assert fleet_table.rows(table, []).num_rows == 0
    assert fleet_table.rows(table, [0, 1, 2, 3]) is table


def test_names_cannot_reorder_the_line() -> None:
    assert first_row(name="a\u202eb\nc")["query"] == "a\ufffdb c"
