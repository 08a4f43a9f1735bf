"""PromQL trees as text: on one line, or formatted as Prometheus does. Redundant parentheses are not in the tree.

Used by the query API. `formatted` breaks lines over MAX_LINE_LENGTH characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal

from alerts.durations import format_duration
from alerts.matching.labels import Matcher
from alerts.promql.series import METRIC_NAME
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
    chain,
)
from alerts.promql.syntax.parser import POWER, UNARY

MAX_LINE_LENGTH = 100
#: Longer chains of operators stay on one line: each link is indented further.
MAX_INDENTED_LINKS = 200
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def text_of(node: Node) -> str:
    """The expression on one line."""
    match node:
        case Number(value):
            return number(value)
        case StringLiteral(value):
            return quoted(value)
        case Selector():
            return _selector(node)
        case Subquery():
            return _operand(node.inner, POWER["^"] + 1) + _subquery(node)
        case Call():
            return f"{node.function}({', '.join(map(text_of, node.arguments))})"
        case Aggregation():
            inside = [node.inner] if node.parameter is None else [node.parameter, node.inner]
            return f"{_aggregation(node)}({', '.join(map(text_of, inside))})"
        case Negation(inner):
            return f"-{_operand(inner, UNARY + 1)}"
    return _chain(node)


def _chain(node: Binary) -> str:
    links = chain(node)
    text, own = _operand(links[0].left, _left_power(links[0])), len(POWER)
    for link in links:
        left = f"({text})" if own < _left_power(link) else text
        text = f"{left} {_operator(link)} {_operand(link.right, _right_power(link))}"
        own = POWER[link.operator]
    return text


def _left_power(link: Binary) -> int:
    """How strongly the left operand must bind to need no parentheses; `^` groups from the right."""
    return POWER[link.operator] + (link.operator == "^")


def _right_power(link: Binary) -> int:
    """The right operand's; a sign there binds as strongly as it can."""
    return 0 if _is_signed(link.right) else POWER[link.operator] + (link.operator != "^")


def _operand(node: Node, power: int) -> str:
    """An operand, in parentheses where it binds less strongly than `power`."""
    own = POWER[node.operator] if isinstance(node, Binary) else UNARY if _is_signed(node) else power
    return f"({text_of(node)})" if own < power else text_of(node)


def _is_signed(node: Node) -> bool:
    return isinstance(node, Negation) or (isinstance(node, Number) and number(node.value).startswith("-"))


def formatted(node: Node, level: int = 0) -> str:
    """The expression on lines of at most MAX_LINE_LENGTH characters, where it can be split."""
    whole, indent = text_of(node), "  " * level
    if len(whole) <= MAX_LINE_LENGTH:
        return indent + whole
    match node:
        case Call() if node.arguments:
            return f"{indent}{node.function}(\n{_lines(node.arguments, level + 1)}\n{indent})"
        case Aggregation():
            inside = [node.inner] if node.parameter is None else [node.parameter, node.inner]
            return f"{indent}{_aggregation(node)}(\n{_lines(inside, level + 1)}\n{indent})"
        case Binary() if len(chain(node)) <= MAX_INDENTED_LINKS:
            left = _split(node.left, _left_power(node), level + 1)
            return f"{left}\n{indent}{_operator(node)}\n{_split(node.right, _right_power(node), level + 1)}"
        case Subquery():
            return _split(node.inner, POWER["^"] + 1, level) + _subquery(node)
        case Negation(inner):
            return f"{indent}-{_split(inner, UNARY + 1, level).lstrip()}"
    return indent + whole


def _lines(nodes: Sequence[Node], level: int) -> str:
    return ",\n".join(formatted(node, level) for node in nodes)


def _split(node: Node, power: int, level: int) -> str:
    """An operand on its own lines, in parentheses where it needs them."""
    whole, indent = _operand(node, power), "  " * level
    if whole == text_of(node):
        return formatted(node, level)
    return (
        indent + whole
        if len(whole) <= MAX_LINE_LENGTH
        else f"{indent}(\n{formatted(node, level + 1)}\n{indent})"
    )


# -- parts -----------------------------------------------------------------------------------------


def number(value: float) -> str:
    """A number as Go prints it: `0.5`, `1e+06` from seven digits on, `NaN`, `+Inf`."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "+Inf"}.get(str(value), "-Inf")
    digits = Decimal(repr(value)).normalize()
    if -5 < digits.adjusted() < 6 or value == 0.0:
        return format(digits, "f")
    mantissa, _, exponent = format(digits, "e").partition("e")
    return f"{mantissa}e{int(exponent):+03d}"


def quoted(text: str) -> str:
    """A text in double quotes, with escapes that PromQL reads."""
    return json.dumps(text, ensure_ascii=False)


def metric_name(selector: Selector) -> str:
    """The name that a selector requires; empty without one."""
    named = (m.value for m in selector.matchers if m.name == METRIC_NAME and m.operator == "=")
    return next(named, "")


def _selector(node: Selector) -> str:
    name = metric_name(node)
    plain = bool(_METRIC.fullmatch(name))
    left = [m for m in node.matchers if not (m.name == METRIC_NAME and m.operator == "=" and m.value == name)]
    inside = [*([] if plain or not name else [quoted(name)]), *map(_matcher, left)]
    shown = (name if plain else "") + (f"{{{','.join(inside)}}}" if inside or not plain else "")
    length = f"[{format_duration(node.range)}]" if node.range is not None else ""
    edges = f" {node.edges.value}" if node.edges is not None else ""
    return shown + length + edges + _shift(node.shift)


def _matcher(matcher: Matcher) -> str:
    return f"{_label(matcher.name)}{matcher.operator}{quoted(matcher.value)}"


def _label(name: str) -> str:
    return name if _LABEL.fullmatch(name) else quoted(name)


def _shift(shift: Shift) -> str:
    at = ""
    if isinstance(shift.at, Anchor):
        at = f" @ {shift.at.value}()"
    elif shift.at is not None:
        at = f" @ {shift.at:.3f}"
    if not shift.offset:
        return at
    return f"{at} offset {'-' if shift.offset < 0 else ''}{format_duration(abs(shift.offset))}"


def _subquery(node: Subquery) -> str:
    step = "" if node.step is None else format_duration(node.step)
    return f"[{format_duration(node.range)}:{step}]{_shift(node.shift)}"


def _aggregation(node: Aggregation) -> str:
    labels = ", ".join(map(_label, node.labels))
    if node.without:
        return f"{node.operator} without ({labels}) "
    return f"{node.operator} by ({labels}) " if labels else node.operator


def _operator(node: Binary) -> str:
    return (
        node.operator
        + (" bool" if node.as_bool else "")
        + (_matching(node.matching) if node.matching else "")
    )


def _matching(matching: Matching) -> str:
    listed = ", ".join(map(_label, matching.labels))
    text = f" {'on' if matching.on else 'ignoring'} ({listed})" if matching.on or listed else ""
    if matching.group:
        text += f" group_{matching.group} ({', '.join(map(_label, matching.include))})"
    left, right = matching.fill_left, matching.fill_right
    if left is not None and left == right:
        return f"{text} fill ({number(left)})"
    text += "" if left is None else f" fill_left ({number(left)})"
    return text if right is None else f"{text} fill_right ({number(right)})"
