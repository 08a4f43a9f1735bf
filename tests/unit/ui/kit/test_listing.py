"""The table of links: what the browser gets."""

from ui.kit import listing
from ui.kit.listing import ListColumn, ListRow, PageOfRows


def test_the_same_rows_give_the_same_payload() -> None:
    columns = [ListColumn("Query", "title", "name")]
    page = PageOfRows([ListRow("q1", ["a"])], total=250, offset=100, sort="-name")
    first = listing.payload("Queries", columns, page)
    assert first == listing.payload("Queries", columns, page)
    assert first["columns"] == [{"label": "Query", "style": "title", "sort": "name"}]
    assert first["rows"] == [{"id": "q1", "cells": ["a"]}]
    assert first["page"] == {"offset": 100, "limit": 100, "total": 250}


def test_a_trend_starts_at_zero_or_its_lowest_value() -> None:
    assert listing.trend([5.0, 10.0]) == [6, 12]
    assert listing.trend([-10.0, 0.0]) == [0, 12]
    assert listing.trend([0.0, 0.0]) == [0, 0]
    assert listing.trend([1.0]) == []
