"""Baselines of the lake as the server takes them, whatever the queries are called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from controlplane.lake.schema import arrow_schema
from controlplane.metrics.baselines import Baseline, from_json
from controlplane.pipeline.rollup.baseline_documents import baseline_documents

MADE = datetime(2026, 3, 30, tzinfo=UTC)
TYPICAL = {
    "metric": "state_rows",
    "hour_of_week": 1,
    "quantile": 0.5,
    "value": 7.0,
    "weeks": 3,
    "samples": 40,
}


def published(*rows: dict[str, Any]) -> list[Baseline]:
    """As the server understands it."""
    reported = [
        {"app": "shop", "query_id": "q", "query": "orders", "made_at": MADE} | TYPICAL | row for row in rows
    ]
    sent = baseline_documents(pa.Table.from_pylist(reported, schema=arrow_schema("baselines")))
    return [from_json(item, "one") for document in sent for item in document["baselines"]]


def test_a_value_comes_to_its_place() -> None:
    (item,) = published({})
    assert (item.query_id, item.app, item.query, item.made_at) == ("q", "shop", "orders", MADE.timestamp())
    assert np.argwhere(~np.isnan(item.values)).tolist() == [[3, 1, 1]] and item.values[3, 1, 1] == 7.0


@pytest.mark.parametrize(
    ("row", "app", "query"),
    [
        ({"query": "o" * 1001}, "shop", "o" * 1000),
        ({"app": "s" * 1001}, "s" * 1000, "orders"),
        ({"app": None}, "unnamed", "orders"),
    ],
    ids=["a long name", "a long name of the application", "no application"],
)
def test_one_odd_name_does_not_keep_the_others_from_being_published(
    row: dict[str, Any], app: str, query: str
) -> None:
    item, other = published(row, {"query_id": "r"})
    assert (item.app, item.query, other.query) == (app, query, "orders")


def test_a_value_that_no_server_accepts_is_omitted() -> None:
    (item,) = published({"value": 1e39}, {"hour_of_week": 2})
    assert np.argwhere(~np.isnan(item.values)).tolist() == [[3, 2, 1]]
