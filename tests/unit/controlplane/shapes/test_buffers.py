"""What aggregations keep, by Spark's own functions."""

import pytest

from controlplane.shapes.buffers import buffer_columns


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ([("count(1)", "long")], [("long", False)]),
        ([("sum(v)", "long"), ("max(k)", "string")], [("long", True), ("string", True)]),
        ([("avg(v)", "double")], [("double", True), ("long", True)]),
        ([("first(v, false)", "integer")], [("integer", True), ("boolean", True)]),
        ([("sum(v)", "long"), ("sum(v)", "long")], [("long", True)]),
        ([], []),
    ],
)
def test_buffer_columns_of_known_functions_are_in_order(values: list, columns: list) -> None:
    assert buffer_columns(tuple(values)) == tuple(columns)


@pytest.mark.parametrize(
    ("expression", "type"),
    [
        ("my_udaf(v)", "long"),
        ("(sum(v) / count(1))", "double"),
        ("sum(v) + 1", "long"),
        ("sum(v)", "decimal(20,2)"),
        ("collect_list(v, 0, 0)", "array<long>"),
    ],
)
def test_unknown_functions_give_none(expression: str, type: str) -> None:
    assert buffer_columns((("count(1)", "long"), (expression, type))) is None
