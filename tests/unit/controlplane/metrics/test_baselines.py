"""What is usual: bodies taken in with care, the book, and its readings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from controlplane.errors import BadRequest
from controlplane.metrics.baselines import (
    HOURS,
    SHAPE,
    Baseline,
    BaselineStore,
    from_json,
    hour_of_week,
    hours_of_week,
    to_json,
)
from controlplane.model import QueryView


def baseline(query_id: str = "q1", query: str = "orders", value: float = 5.0) -> Baseline:
    values = np.full(SHAPE, np.nan, np.float32)
    values[0, :, 1] = value + np.arange(HOURS)
    return Baseline(query_id, "shop", query, 1.5, values)


def reported(**changes: Any) -> dict[str, Any]:
    return {**to_json(baseline()), **changes}


def view(query_id: str, name: str | None = "orders", **more: Any) -> QueryView:
    return QueryView(
        query_id=query_id,
        app="shop",
        name=name,
        labels={"team": "a"},
        first_seen_at=0.0,
        agent=None,
        run=None,
        **more,
    )


@pytest.mark.parametrize(
    ("when", "hour"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 72),
        (datetime(2026, 3, 2, tzinfo=UTC), 0),
        (datetime(2026, 3, 8, 23, 59, 59, tzinfo=UTC), 167),
        (datetime(2026, 3, 4, 5, 0, tzinfo=UTC), 53),
    ],
    ids=str,
)
def test_an_hour_of_the_week_is_counted_from_monday(when: datetime, hour: int) -> None:
    assert hour_of_week(when.timestamp()) == hour
    assert hours_of_week(np.array([when.timestamp()] * 2)).tolist() == [hour, hour]


def test_what_is_reported_is_what_is_parsed() -> None:
    again = from_json(reported(), "one")
    assert (again.query_id, again.app, again.query, again.made_at) == ("q1", "shop", "orders", 1.5)
    np.testing.assert_array_equal(again.values, baseline().values)


WRONG = {
    "no object": ([], "one must be an object, not list"),
    "no id": (reported(query_id=None), "one.query_id must be text"),
    "an endless name": (reported(query="x" * 2000), "one.query must be text"),
    "no figures": (reported(figures=None), "one.figures must be an object"),
    "an unknown figure": (
        reported(figures={"moons": {}}),
        "one.figures: 'moons' is none of input_rows_per_second",
    ),
    "an unknown quantile": (
        reported(figures={"state_rows": {"0.3": [None] * HOURS}}),
        "one.figures.state_rows: '0.3' is none of 0.1, 0.5, 0.9",
    ),
    "too few hours": (reported(figures={"state_rows": {"0.5": [1]}}), "must be a list of 168 values"),
    "a text for a value": (
        reported(figures={"state_rows": {"0.5": [None] * 7 + ["x"] + [None] * 160}}),
        r"one.figures.state_rows.0.5\[7\] must be a number or null",
    ),
    "too large a value": (
        reported(figures={"state_rows": {"0.5": [1e300] * HOURS}}),
        "must be a number or null",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    document, text = WRONG[case]
    with pytest.raises(BadRequest, match=text):
        from_json(document, "one")


def test_a_query_with_a_new_checkpoint_has_the_baseline_of_its_name() -> None:
    book = BaselineStore()
    book.replace([baseline("old")])
    found = book.of(view("new"))
    assert found is not None and found.query_id == "old"
    assert book.of(view("new", "others")) is None and book.of(view("new", None)) is None


def test_readings_are_of_the_hour_and_of_what_is_known() -> None:
    book = BaselineStore()
    book.replace([baseline()])
    monday_5 = datetime(2026, 3, 2, 5, 30, tzinfo=UTC).timestamp()
    (item,) = book.samples([view("q1"), view("q2", "unknown")], monday_5)
    assert item.metric.name == "spark_streaming_baseline_input_rows_per_second" and item.value == 10.0
    assert item.labels == {"team": "a", "app": "shop", "query": "orders", "query_id": "q1", "quantile": "0.5"}
    assert list(book.samples([view("q1")], monday_5, frozenset({"spark_streaming_batch_id"}))) == []
    assert list(book.samples([view("q1", retired_at=5.0)], monday_5)) == []


def test_a_thousand_queries_take_little_memory() -> None:
    assert 1000 * baseline().values.nbytes < 10e6
