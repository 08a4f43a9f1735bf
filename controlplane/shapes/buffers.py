"""Buffer types of aggregate functions: the columns that an aggregation keeps in its state, in order.

Spark compares state by number and type of columns, not by meaning. The types show whether it refuses a change
or accepts it with wrong results. Source: `aggBufferAttributes` of Spark's functions.
"""

from __future__ import annotations

import re

#: Function → types of its buffer; `R` is the type of the result. Other functions are not known.
_BUFFERS = {
    "count": ("long",),
    "count_if": ("long",),
    "sum": ("R",),
    "min": ("R",),
    "max": ("R",),
    "first": ("R", "boolean"),
    "last": ("R", "boolean"),
    "any_value": ("R", "boolean"),
    "avg": ("double", "long"),
    "mean": ("double", "long"),
    "stddev_samp": ("double", "double", "double"),
    "stddev": ("double", "double", "double"),
    "stddev_pop": ("double", "double", "double"),
    "var_samp": ("double", "double", "double"),
    "variance": ("double", "double", "double"),
    "var_pop": ("double", "double", "double"),
}
#: Functions with non-nullable buffers; Spark 3 compares nullability too.
_NEVER_NULL = frozenset(("count", "count_if"))
_CALL = re.compile(r"^(\w+)\(")
_INSIDE = re.compile(rf"\b({'|'.join(_BUFFERS)})\(")


def buffer_columns(values: tuple[tuple[str, str], ...]) -> tuple[tuple[str, bool], ...] | None:
    """(type, nullable) of each state column; None where a function or its position is not known.

    `values` are (expression, type) of an aggregation: `("sum(v)", "long")` → `(("long", True),)`.
    """
    found: list[tuple[str, bool]] = []
    for expression in dict.fromkeys(values):
        columns = _columns(*expression)
        if columns is None:
            return None
        found += columns
    return tuple(found)


def _columns(expression: str, type: str) -> list[tuple[str, bool]] | None:
    call = _CALL.match(expression)
    kinds = _BUFFERS.get(call.group(1)) if call and len(_INSIDE.findall(expression)) == 1 else None
    if call is None or kinds is None or not _is_whole(expression):
        return None
    if call.group(1) in ("avg", "mean", "sum") and type.startswith("decimal"):
        return None  # Spark widens the buffer, and sum adds an overflow flag
    nullable = call.group(1) not in _NEVER_NULL
    return [(type if kind == "R" else kind, nullable) for kind in kinds]


def _is_whole(expression: str) -> bool:
    """Whether the first call spans the whole expression: `sum(v)`, not `(sum(v) / 2)`."""
    depth = 0
    for at, char in enumerate(expression):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char == ")":
            return at == len(expression) - 1
    return False
