"""A tree as text with every pair of parentheses, to see how it grouped; it parses to the same tree."""

from __future__ import annotations

import json

from alerts.promql.syntax.nodes import (
    Aggregation,
    Anchor,
    Binary,
    Call,
    Matching,
    Negation,
    Node,
    Number,
    Selector,
    Shift,
    StringLiteral,
    Subquery,
)


def shape(node: Node) -> str:
    match node:
        case Number():
            return f"{node.value:g}" if node.value == int_or_none(node.value) else repr(node.value)
        case StringLiteral():
            return repr(node.value)
        case Selector():
            return _selector(node) + _shift(node.shift)
        case Subquery():
            step = "" if node.step is None else node.step
            return f"{_side(node.inner)}[{node.range}:{step}]{_shift(node.shift)}"
        case Negation():
            return f"-({shape(node.inner)})"
        case Call():
            return f"{node.function}({', '.join(map(shape, node.arguments))})"
        case Aggregation():
            arguments = [node.inner] if node.parameter is None else [node.parameter, node.inner]
            clause = f"{'without' if node.without else 'by'}({','.join(node.labels)})"
            return f"{node.operator} {clause} ({', '.join(map(shape, arguments))})"
        case Binary():
            as_bool = "bool" if node.as_bool else ""
            matching = "" if node.matching is None else f" {_matching(node.matching)}"
            return f"({_side(node.left)} {node.operator}{as_bool}{matching} {shape(node.right)})"


def _side(node: Node) -> str:
    """A sign binds less than a power or a range behind it."""
    text = shape(node)
    return f"({text})" if text.startswith("-") else text


def int_or_none(value: float) -> int | None:
    return int(value) if value.is_integer() and abs(value) < 1e6 else None


def _selector(node: Selector) -> str:
    name, *others = node.matchers
    plain = name.name == "__name__" and name.operator == "="
    conditions = ",".join(
        f"{m.name}{m.operator}{json.dumps(m.value)}" for m in (others if plain else node.matchers)
    )
    braces = f"{{{conditions}}}" if conditions else ""
    return (name.value if plain else "") + braces + ("" if node.range is None else f"[{node.range}]")


def _shift(shift: Shift) -> str:
    at = "" if shift.at is None else f" @ {_moment(shift.at)}"
    return at + ("" if shift.offset is None else f" offset {shift.offset}")


def _moment(at: float | Anchor) -> str:
    return f"{at.value}()" if isinstance(at, Anchor) else repr(at)


def _matching(matching: Matching) -> str:
    text = f"{'on' if matching.on else 'ignoring'}({','.join(matching.labels)})"
    return text if matching.group is None else f"{text} group_{matching.group}({','.join(matching.include)})"
