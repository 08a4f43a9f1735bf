"""The fleet as cells: unknown values are dashes, alerts carry a color, and only what happens changes a row."""

from typing import Any

import pytest

from controlplane.api.fleet.answer import FIELDS, SORTABLE
from tests.ui import factories
from ui.fleet import table as fleet_table
from ui.kit import fleet_page, markup
from ui.kit.units import UNKNOWN


def cells(**overrides: object) -> dict[str, Any]:
    (row,) = fleet_table.rows([factories.fleet_query(1, **overrides)])
    return dict(zip((column.shown.label for column in fleet_table.columns()), row.cells, strict=True))


def test_a_row_has_its_link_its_sentence_and_numbers_with_units() -> None:
    found = cells(reason="Stuck: no task has finished.", lag_seconds=26.44, batch_duration_seconds=840.0)
    href = f"query?query_id={factories.query_id(1)}"
    assert found["Query"] == {"text": "query-1", "href": href, "note": "orders"}
    assert found["Reason"] == "Stuck: no task has finished."
    assert found["Backlog age"] == "26.4 s"
    assert found["Last batch"]["text"] == "14 min"
    assert len(found["Last batch"]["points"]) == fleet_table.TREND_POINTS
    assert max(found["Last batch"]["points"]) == 12


def test_unknown_values_are_dashes_and_not_zero() -> None:
    (row,) = fleet_table.rows([{"query_id": factories.query_id(1), "lag_rows": None, "recent": None}])
    name, backlog, numbers = row.cells[0], row.cells[4], row.cells[5:]
    assert name["text"] == factories.query_id(1)[:8]  # type: ignore[index]
    assert backlog == {"text": UNKNOWN, "points": []}
    assert [each["text"] if isinstance(each, dict) else each for each in numbers] == [UNKNOWN] * 5


def test_an_ended_query_has_no_input_rate() -> None:
    assert cells(status="failed")["Input rate"] == UNKNOWN
    assert cells()["Input rate"] == "1.21k/s"


def test_a_row_is_the_same_as_time_goes_by() -> None:
    query = factories.fleet_query(1)
    assert fleet_table.rows([query]) == fleet_table.rows([{**query, "as_of": "later"}])
    assert cells()["Last progress"] == {"at": round(factories.NOW - 4)}


@pytest.mark.parametrize(
    ("count", "severity", "badge", "color"),
    [
        (1, "critical", "1 critical", "red"),
        (3, "warning", "3 warning", "orange"),
        (2, None, "2 firing", "red"),
        (2, "<b>odd</b>", "2 firing", "red"),
        (400, "info", "20+ info", "blue"),
    ],
)
def test_alerts_are_counted_in_the_color_of_the_worst(
    count: int, severity: str | None, badge: str, color: str
) -> None:
    assert cells(alerts=count, alert_severity=severity)["Alerts"] == {"text": badge, "pill": color}
    assert cells(alerts=0)["Alerts"]["text"] == ""


def test_names_cannot_reorder_the_line() -> None:
    assert cells(name="a\u202eb\nc")["Query"]["text"] == "a\ufffdb c"


def test_chosen_columns_come_in_their_order_after_the_fixed_ones_and_labels_last() -> None:
    assert fleet_table.choosable(["team=pay", "team=web", "env=prod"])[-2:] == ["label env", "label team"]
    shown = fleet_table.columns(["label team", "Spark", "Watermark", "no such column"])
    names = [column.shown.label for column in shown]
    assert names == ["Query", "Status", "Reason", "Alerts", "Watermark", "Spark", "team"]
    assert fleet_table.fields(shown) == ("watermark", "spark_version", "labels")
    query = factories.fleet_query(1, labels={"team": "=1+1"}, watermark=None, spark_version="4.3.0")
    (row,) = fleet_table.rows([query], shown)
    assert [str(cell).lstrip(markup.WORD_JOINER) for cell in row.cells[4:]] == [UNKNOWN, "4.3.0", "=1+1"]
    assert str(row.cells[-1]).startswith(markup.WORD_JOINER)  # no formula in a spreadsheet


def test_every_column_that_sorts_and_every_field_is_known_to_the_server() -> None:
    asked = {name for column in fleet_table.OPTIONAL for name in column.fields} | set(fleet_page.FIELDS)
    assert asked <= FIELDS
    assert fleet_table.SORTABLE <= SORTABLE
