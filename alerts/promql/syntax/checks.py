"""Whether the parts of an expression fit each other: types of operands, arguments and parameters."""

from __future__ import annotations

from alerts.promql.errors import ParseError
from alerts.promql.syntax.nodes import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Node,
    Number,
    Selector,
    StringLiteral,
    Subquery,
    ValueType,
)
from alerts.promql.syntax.signatures import AGGREGATION_PARAMETERS, COMPARISONS, FUNCTIONS, SETS, Signature
from alerts.promql.syntax.tokens import error

_ARITHMETIC_TYPES = (ValueType.SCALAR, ValueType.VECTOR)


def check(node: Node) -> ValueType:
    """The type of an expression; ParseError at the first part that does not fit."""
    match node:
        case Number():
            return ValueType.SCALAR
        case StringLiteral():
            return ValueType.STRING
        case Selector():
            return ValueType.VECTOR if node.range is None else ValueType.MATRIX
        case Subquery():
            _require(ValueType.VECTOR, node.inner, "subquery")
            return ValueType.MATRIX
        case Negation():
            return _operand(node.inner, "unary expression")
        case Aggregation():
            return _aggregation(node)
        case Call():
            return _call(node)
        case Binary():
            return _binary(node)


def _require(expected: ValueType, node: Node, where: str) -> None:
    found = check(node)
    if found is not expected:
        raise error(f"expected type {expected.value} in {where}, got {found.value}", node.place)


def _operand(node: Node, where: str) -> ValueType:
    found = check(node)
    if found not in _ARITHMETIC_TYPES:
        message = f"{where} allows only scalars and instant vectors, got {found.value}"
        raise error(message, node.place)
    return found


def _aggregation(node: Aggregation) -> ValueType:
    _require(ValueType.VECTOR, node.inner, "aggregation expression")
    if node.parameter is not None:
        _require(AGGREGATION_PARAMETERS[node.operator], node.parameter, "aggregation parameter")
    return ValueType.VECTOR


def _call(node: Call) -> ValueType:
    signature = FUNCTIONS[node.function]
    if mistake := _miscounted(signature, len(node.arguments)):
        raise error(f'{mistake} in call to "{node.function}", got {len(node.arguments)}', node.place)
    expected = signature.arguments
    if signature.endless:
        expected += expected[-1:] * len(node.arguments)
    for type_, argument in zip(expected, node.arguments, strict=False):
        _require(type_, argument, f'call to function "{node.function}"')
    return signature.returns


def _miscounted(signature: Signature, given: int) -> str:
    most = len(signature.arguments)
    least = most - signature.optional
    if given < least:
        return f"expected {'at least ' * (signature.optional > 0 or signature.endless)}{least} argument(s)"
    if given > most and not signature.endless:
        return f"expected {'at most ' * (signature.optional > 0)}{most} argument(s)"
    return ""


def _binary(node: Binary) -> ValueType:
    types = [_operand(side, "binary expression") for side in (node.left, node.right)]
    both_vectors = types == [ValueType.VECTOR, ValueType.VECTOR]
    if mistake := _misapplied(node, both_vectors, types == [ValueType.SCALAR, ValueType.SCALAR]):
        raise mistake
    return ValueType.SCALAR if ValueType.VECTOR not in types else ValueType.VECTOR


def _misapplied(node: Binary, both_vectors: bool, both_scalars: bool) -> ParseError | None:
    if node.operator in COMPARISONS and both_scalars and not node.as_bool:
        return error("comparisons between scalars must use BOOL modifier", node.place)
    if node.operator in SETS and not both_vectors:
        return error(f'set operator "{node.operator}" not allowed in binary scalar expression', node.place)
    if node.matching is not None and not both_vectors:
        return error("vector matching only allowed between instant vectors", node.place)
    return None
