"""Whether the parts of an expression fit each other: types of operands, arguments and parameters."""

from __future__ import annotations

from dataclasses import replace

from alerts.matching.labels import matches
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
    chain,
)
from alerts.promql.syntax.signatures import (
    AGGREGATION_PARAMETERS,
    COMPARISONS,
    EDGE_FUNCTIONS,
    FUNCTIONS,
    SETS,
    Signature,
)
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
            if matches(node.matchers, {}):
                raise error("vector selector must contain at least one non-empty matcher", node.place)
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
    if node.function == "info" and len(node.arguments) > 1:  # its selector chooses labels, so any will do
        if not isinstance(node.arguments[1], Selector) or node.arguments[1].range is not None:
            raise error("the second argument of info() must be a selector", node.arguments[1].place)
        node = replace(node, arguments=node.arguments[:1])
    expected = signature.arguments
    if signature.endless:
        expected += expected[-1:] * len(node.arguments)
    for type_, argument in zip(expected, node.arguments, strict=False):
        _require(type_, argument, f'call to function "{node.function}"')
        _require_edges(node.function, argument)
    return signature.returns


def _require_edges(function: str, argument: Node) -> None:
    """Samples outside the range are only for functions that know how to take them."""
    if not isinstance(argument, Selector) or argument.edges is None or argument.range is None:
        return
    known = EDGE_FUNCTIONS[argument.edges]
    if function not in known:
        listed = f"can only be used with: {', '.join(known)} - not with {function}"
        raise error(f"{argument.edges.value} modifier {listed}", argument.place)


def _miscounted(signature: Signature, given: int) -> str:
    most = len(signature.arguments)
    least = most - signature.optional
    if given < least:
        return f"expected {'at least ' * (signature.optional > 0 or signature.endless)}{least} argument(s)"
    if given > most and not signature.endless:
        return f"expected {'at most ' * (signature.optional > 0)}{most} argument(s)"
    return ""


def _binary(node: Binary) -> ValueType:
    links = chain(node)
    found = _operand(links[0].left, "binary expression")
    for link in links:
        types = [found, _operand(link.right, "binary expression")]
        both_vectors = types == [ValueType.VECTOR, ValueType.VECTOR]
        if mistake := _misapplied(link, both_vectors, types == [ValueType.SCALAR, ValueType.SCALAR]):
            raise mistake
        found = ValueType.SCALAR if ValueType.VECTOR not in types else ValueType.VECTOR
    return found


def _misapplied(node: Binary, both_vectors: bool, both_scalars: bool) -> ParseError | None:
    if node.operator in COMPARISONS and both_scalars and not node.as_bool:
        return error("comparisons between scalars must use BOOL modifier", node.place)
    if node.operator in SETS and not both_vectors:
        return error(f'set operator "{node.operator}" not allowed in binary scalar expression', node.place)
    if node.matching is not None and not both_vectors:
        return error("vector matching only allowed between instant vectors", node.place)
    return None
