"""The address that a saved view stands for."""

from urllib.parse import parse_qs

from ui.fleet import saved_views, table
from ui.kit.fleet_page import FleetPage


def test_the_first_view_needs_no_parameters() -> None:
    assert saved_views.parameters(FleetPage(offset=200, fields=("lag_rows",)), table.DEFAULT) == ""


def test_filters_order_and_columns_are_kept_and_the_page_is_not() -> None:
    page = FleetPage('{a="b&c"}', ("x", "y"), ("failed",), ("team=pay",), sort="-lag_rows", offset=300)
    assert parse_qs(saved_views.parameters(page, ["Spark", "label team"])) == {
        "search": ['{a="b&c"}'],
        "app": ["x", "y"],
        "status": ["failed"],
        "label": ["team=pay"],
        "sort": ["-lag_rows"],
        "column": ["Spark", "label team"],
    }
