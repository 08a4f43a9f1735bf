"""PromQL trees as JSON documents, in the form of Prometheus' `parse_query`."""

from __future__ import annotations

from typing import Any

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
    ValueType,
    chain,
)
from alerts.promql.syntax.printing import metric_name, number
from alerts.promql.syntax.signatures import FUNCTIONS, SETS

_TYPES = {
    ValueType.SCALAR: "scalar",
    ValueType.VECTOR: "vector",
    ValueType.MATRIX: "matrix",
    ValueType.STRING: "string",
}


def document(node: Node) -> dict[str, Any]:
    """The tree; durations are in milliseconds."""
    match node:
        case Number(value):
            return {"type": "numberLiteral", "val": number(value)}
        case StringLiteral(value):
            return {"type": "stringLiteral", "val": value}
        case Selector():
            return _selector(node)
        case Subquery():
            span = {"range": _milliseconds(node.range), "step": _milliseconds(node.step or 0.0)}
            return {"type": "subquery", "expr": document(node.inner), **span, **_shift(node.shift)}
        case Call():
            return {"type": "call", "func": _function(node), "args": list(map(document, node.arguments))}
        case Aggregation():
            parameter = None if node.parameter is None else document(node.parameter)
            labels = {"grouping": list(node.labels), "without": node.without}
            return {
                "type": "aggregation",
                "op": node.operator,
                "expr": document(node.inner),
                "param": parameter,
                **labels,
            }
        case Negation(inner):
            return {"type": "unaryExpr", "op": "-", "expr": document(inner)}
    return _chain(node)


def _chain(node: Binary) -> dict[str, Any]:
    links = chain(node)
    left, is_vector = document(links[0].left), _is_vector(links[0].left)
    for link in links:
        of_vectors, is_vector = is_vector and _is_vector(link.right), is_vector or _is_vector(link.right)
        matching = _matching(link.operator, link.matching or Matching()) if of_vectors else None
        both = {"lhs": left, "rhs": document(link.right)}
        left = {"type": "binaryExpr", "op": link.operator, **both, "matching": matching, "bool": link.as_bool}
    return left


def _is_vector(node: Node) -> bool:
    """Whether an operand is an instant vector; the other kind of operand is a scalar."""
    match node:
        case Number():
            return False
        case Call():
            return FUNCTIONS[node.function].returns is ValueType.VECTOR
        case Negation(inner):
            return _is_vector(inner)
        case Binary():
            links = chain(node)
            return _is_vector(links[0].left) or any(_is_vector(link.right) for link in links)
    return True


def _matching(operator: str, matching: Matching) -> dict[str, Any]:
    cards = {"left": "many-to-one", "right": "one-to-many"}
    card = "many-to-many" if operator in SETS else cards.get(matching.group or "", "one-to-one")
    return {
        "card": card,
        "labels": list(matching.labels),
        "on": matching.on,
        "include": list(matching.include),
        "fillValues": {"lhs": matching.fill_left, "rhs": matching.fill_right},
    }


def _function(node: Call) -> dict[str, Any]:
    signature = FUNCTIONS[node.function]
    return {
        "name": node.function,
        "argTypes": [_TYPES[kind] for kind in signature.arguments],
        "variadic": -1 if signature.endless else signature.optional,
        "returnType": _TYPES[signature.returns],
    }


def _selector(node: Selector) -> dict[str, Any]:
    kind = "vectorSelector" if node.range is None else "matrixSelector"
    span = {} if node.range is None else {"range": _milliseconds(node.range)}
    matchers = [{"name": m.name, "value": m.value, "type": m.operator} for m in node.matchers]
    edges: dict[str, Any] = {} if node.edges is None else {node.edges.value: True}
    return {
        "type": kind, "name": metric_name(node), **span, "matchers": matchers, **_shift(node.shift), **edges
    }  # fmt: skip


def _shift(shift: Shift) -> dict[str, Any]:
    anchored = isinstance(shift.at, Anchor)
    return {
        "offset": _milliseconds(shift.offset or 0.0),
        "timestamp": None if anchored or shift.at is None else _milliseconds(float(shift.at)),  # type: ignore[arg-type]
        "startOrEnd": shift.at.value if isinstance(shift.at, Anchor) else None,
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
