"""Texts of charts that have nothing to draw."""

from __future__ import annotations

import pytest

from ui.query.chart_panels import NO_PROGRESS, empty_text


@pytest.mark.parametrize(
    ("key", "has_progress", "text"),
    [
        ("lag", True, "No source reports a backlog in rows."),
        ("lag", False, NO_PROGRESS),
        ("state", True, NO_PROGRESS),
        ("state", False, NO_PROGRESS),
    ],
)
def test_an_empty_chart_of_a_query_that_failed_before_the_range_denies_nothing(
    key: str, has_progress: bool, text: str
) -> None:
    assert empty_text(key, has_progress) == text
