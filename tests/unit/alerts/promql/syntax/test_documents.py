"""Trees as `parse_query` of Prometheus 3 returns them."""

from __future__ import annotations

from typing import Any

from alerts.promql.syntax.documents import document
from alerts.promql.syntax.parser import parse

A: dict[str, Any] = {
    "type": "vectorSelector",
    "name": "a",
    "matchers": [{"name": "__name__", "value": "a", "type": "="}],
    "offset": 0,
    "timestamp": None,
    "startOrEnd": None,
}


def test_selectors_have_their_times_in_milliseconds() -> None:
    assert document(parse("a")) == A
    found = document(parse("a[5m] offset -1s @ 12.5"))
    assert found == {**A, "type": "matrixSelector", "range": 300_000, "offset": -1000, "timestamp": 12_500}
    assert document(parse("a[1h:5m] @ end()")) == {
        "type": "subquery",
        "expr": A,
        "range": 3_600_000,
        "step": 300_000,
        "offset": 0,
        "timestamp": None,
        "startOrEnd": "end",
    }


def test_calls_aggregations_and_operators() -> None:
    call = document(parse("round(a, 0.5)"))
    assert call["func"] == {
        "name": "round",
        "argTypes": ["vector", "scalar"],
        "variadic": 1,
        "returnType": "vector",
    }
    assert call["args"] == [A, {"type": "numberLiteral", "val": "0.5"}]
    aggregation = document(parse("topk by (x) (3, a)"))
    assert (aggregation["op"], aggregation["param"]["val"], aggregation["grouping"]) == ("topk", "3", ["x"])
    binary = document(parse("a > bool on (x) group_left (y) -a"))
    assert (binary["op"], binary["bool"], binary["rhs"]) == (
        ">",
        True,
        {"type": "unaryExpr", "op": "-", "expr": A},
    )
    assert binary["matching"] == {
        "card": "many-to-one",
        "labels": ["x"],
        "on": True,
        "include": ["y"],
        "fillValues": {"lhs": None, "rhs": None},
    }
    assert document(parse("a and a"))["matching"]["card"] == "many-to-many"
    assert document(parse("a * 2 * time()"))["matching"] is None
    assert document(parse("-(2 + a) / a"))["matching"]["card"] == "one-to-one"
