"""What an aggregation keeps in its state: the types of its functions' buffers, in order.

Spark compares state by number and type of columns, not by what they mean, so this tells a change that it
refuses from one that it takes and gets wrong. Source: the `aggBufferAttributes` of Spark's functions.
"""

from __future__ import annotations

import re

#: Function → types of its buffer; `R` is the result's own type. Others are not known.
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
#: Their buffers are never null; Spark 3 compares that too.
_NEVER_NULL = frozenset(("count", "count_if"))
_CALL = re.compile(r"^(\w+)\(")
_INSIDE = re.compile(rf"\b({'|'.join(_BUFFERS)})\(")


def buffer_columns(values: tuple[tuple[str, str], ...]) -> tuple[tuple[str, bool], ...] | None:
    """(type, may be null) of each column of state; None where a function or its place is not known.

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
        return None  # Spark widens the buffer, and sum adds a flag
    nullable = call.group(1) not in _NEVER_NULL
    return [(type if kind == "R" else kind, nullable) for kind in kinds]


def _is_whole(expression: str) -> bool:
    """Whether the first call is the whole expression: `sum(v)`, not `(sum(v) / 2)`."""
    depth = 0
    for at, char in enumerate(expression):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char == ")":
            return at == len(expression) - 1
    return False
