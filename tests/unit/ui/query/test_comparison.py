"""Comparison of a query with its past or another query: what can be chosen, and the expressions of the charts."""

from __future__ import annotations

import pytest

from alerts.promql.syntax.parser import parse
from listeners.protocol import catalogue
from ui.query import comparison

QUERY = {"query_id": "q-1", "app": "billing", "name": "orders"}
PANEL = next(iter(comparison.PANELS))


def asked(other: str, name: str = "refunds", every: float = 15.0) -> str:
    return comparison.expression(PANEL, "max", QUERY, other, name, every)


def test_other_queries_and_its_own_past_can_be_chosen_and_a_given_one_is_kept() -> None:
    siblings = [QUERY, {"query_id": "q-2", "app": "billing", "name": "refunds"}]
    names = comparison.choices(QUERY, siblings, None)
    assert names == {"1d": "a day before", "7d": "a week before", "q-2": "refunds"}
    assert comparison.choices(QUERY, [], "0123456789")["0123456789"] == "01234567"


def test_the_past_is_the_same_series_with_an_offset() -> None:
    assert asked("1d") == (
        'label_replace(max(spark_streaming_input_rows_per_second{query_id="q-1"}), "line", "this query", "", "")'
        " or "
        'label_replace(max(spark_streaming_input_rows_per_second{query_id="q-1"} offset 1d), '
        '"line", "a day before", "", "")'
    )


def test_another_query_has_its_own_series_under_its_name() -> None:
    assert '{query_id="q-2"}), "line", "refunds", "", "")' in asked("q-2")


def test_every_metric_is_in_the_catalogue() -> None:
    for panel in comparison.PANELS:
        assert f"{catalogue.PREFIX}{panel.metrics[0]}" in catalogue.BY_NAME


@pytest.mark.parametrize("every", [15.0, 7200.0])
@pytest.mark.parametrize("other", ["7d", "q-2", 'q"2\\'])
def test_every_expression_is_promql_whatever_the_names_hold(other: str, every: float) -> None:
    text = asked(other, 'a"b\\c\n$1', every)
    parse(text)
    assert ("quantile_over_time" in text) is (every >= 3600)
