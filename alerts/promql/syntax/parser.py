"""Text to expression tree: a Pratt parser for PromQL as of Prometheus 3, without native histograms.

Depth and length are bounded, so no text can make it recurse or run without end; every error states line and
column. Called by the rule loader and the query API; `checks` then looks at the types. What of Prometheus 3 is
left out is listed in docs/promql.md.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from alerts.errors import PatternError
from alerts.matching.labels import Matcher
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax import literals
from alerts.promql.syntax.checks import check
from alerts.promql.syntax.cursor import MAX_DEPTH, too_deep
from alerts.promql.syntax.nodes import (
    Aggregation,
    Anchor,
    Binary,
    Call,
    Matching,
    Negation,
    Node,
    Number,
    Place,
    RangeEdges,
    Selector,
    Shift,
    StringLiteral,
    Subquery,
    children,
)
from alerts.promql.syntax.signatures import (
    AGGREGATION_PARAMETERS,
    AGGREGATORS,
    COMPARISONS,
    FUNCTIONS,
    SETS,
    UNSUPPORTED_FUNCTIONS,
)
from alerts.promql.syntax.spans import DurationParser
from alerts.promql.syntax.tokens import PromqlToken, TokenKind, error

_POWERS = (("or",), ("and", "unless"), tuple(COMPARISONS), ("+", "-"), ("*", "/", "%", "atan2"), ("^",))
#: How strongly an operator binds; equal ones group from the left, `^` from the right.
POWER = {operator: power for power, operators in enumerate(_POWERS, 1) for operator in operators}
UNARY = POWER["*"]
#: Names that cannot be a metric by themselves.
_RESERVED = frozenset({"bool", "on", "ignoring", "group_left", "group_right", "atan2"})
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_FILLS = {"fill": ("fill_left", "fill_right"), "fill_left": ("fill_left",), "fill_right": ("fill_right",)}
_EDGES = tuple(edges.value for edges in RangeEdges)


def parse(text: str, step: float = 0.0, length: float = 0.0) -> Node:
    """Parse an expression and check its types. ParseError states what is wrong and where.

    `step` and `length`: step and range of the query in seconds, for durations such as `[step()]`; an instant
    query has neither.
    """
    tree = _Parser(text, step, length).whole()
    _bounded(tree)
    check(tree)
    return tree


def _bounded(tree: Node) -> None:
    """Modifiers make a deep tree without nesting; whoever walks trees relies on this bound."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep(tree.place)
        level = [child for node in level for child in children(node)]


class _Parser(DurationParser):
    # -- expressions -------------------------------------------------------------------------------

    def whole(self) -> Node:
        if self._at_end():
            raise error("no expression found in input", self._next.place)
        tree = self._expression(0)
        if self._sees("</", ">/"):
            raise error(f"{self._next} trims native histograms, which are not supported", self._next.place)
        if not self._at_end():
            raise self._unexpected("expression", "an operator or the end")
        return tree

    def _expression(self, above: int) -> Node:
        """What follows, with all operators that bind stronger than `above`."""
        self._deeper(self._next.place)
        left = self._operand()
        while (power := POWER.get(self._next.word, 0)) > above:
            left = self._binary(left, power)
        self._depth -= 1
        return left

    def _binary(self, left: Node, power: int) -> Node:
        token = self._take()
        operator = token.word
        as_bool = self._took("bool")
        if as_bool and operator not in COMPARISONS:
            raise error("bool modifier can only be used on comparison operators", token.place)
        matching = self._matching(operator)
        right = self._expression(power - 1 if operator == "^" else power)
        return Binary(operator, left, right, token.place, as_bool, matching)

    def _matching(self, operator: str) -> Matching | None:
        matching, place = self._label_matching(operator), self._next.place
        fills = self._fills()
        if fills and operator in SETS:
            raise error(f'filling in missing samples not allowed for "{operator}" operation', place)
        if not fills:
            return matching
        return replace(
            matching or Matching(), fill_left=fills.get("fill_left"), fill_right=fills.get("fill_right")
        )

    def _fills(self) -> dict[str, float]:
        """`fill(0)`, or `fill_left(0) fill_right(1)`; without a parenthesis these are names of metrics."""
        fills: dict[str, float] = {}
        while self._sees(*_FILLS):
            token = self._take()
            if not self._sees("("):
                self._put_back(token)
                break
            self._take()
            if fills.keys() & set(_FILLS[token.word]):
                raise error(f"{token.word} may not be set multiple times", token.place)
            fills |= dict.fromkeys(_FILLS[token.word], self._signed_number(token.word))
            self._expect(")", token.word)
        return fills

    def _signed_number(self, where: str, what: str = "a number") -> float:
        sign, token = self._sign(), self._next
        if token.kind not in (TokenKind.NUMBER, TokenKind.DURATION) and token.word not in ("inf", "nan"):
            raise self._unexpected(where, what)
        return sign * literals.number(self._take())

    def _label_matching(self, operator: str) -> Matching | None:
        if not self._sees("on", "ignoring"):
            return None
        on = self._take().word == "on"
        labels = self._label_names()
        if not self._sees("group_left", "group_right"):
            return Matching(labels, on)
        token = self._take()
        if operator in SETS:
            raise error(f'no grouping allowed for "{operator}" operation', token.place)
        include = self._label_names() if self._sees("(") else ()
        if on and (both := set(labels) & set(include)):
            raise error(f'label "{min(both)}" must not occur in ON and GROUP clause at once', token.place)
        return Matching(labels, on, token.word.removeprefix("group_"), include)

    def _operand(self) -> Node:
        if not self._sees("+", "-"):
            return self._modified(*self._primary())
        sign = self._take()
        inner = self._expression(UNARY)
        if sign.text == "+":
            return inner
        if isinstance(inner, Number):
            return replace(inner, value=-inner.value, place=sign.place)
        return Negation(inner, sign.place)

    def _primary(self) -> tuple[Node, bool]:
        """An operand without its modifiers, and whether it stood in parentheses."""
        token = self._next
        if self._took("("):
            inner = self._expression(0)
            self._expect(")", "parentheses")
            return inner, True
        if token.kind in (TokenKind.NUMBER, TokenKind.DURATION) or token.word in ("inf", "nan"):
            return Number(literals.number(self._take()), token.place), False
        if token.kind is TokenKind.STRING:
            return StringLiteral(literals.string(self._take()), token.place), False
        if token.kind is TokenKind.NAME:
            return self._named(), False
        if token.text == "{":
            return self._selector(None), False
        raise self._unexpected("expression", "an operand")

    def _named(self) -> Node:
        token = self._take()
        if token.word in AGGREGATORS and self._sees("(", "by", "without"):
            return self._aggregation(token)
        if self._sees("("):
            return self._call(token)
        if token.word in _RESERVED:
            raise error(f"unexpected {token} in expression, expected an operand", token.place)
        return self._selector(token)

    # -- calls and aggregations --------------------------------------------------------------------

    def _call(self, token: PromqlToken) -> Node:
        if token.text in UNSUPPORTED_FUNCTIONS:
            raise error(f"{token} {UNSUPPORTED_FUNCTIONS[token.text]}", token.place)
        if token.text not in FUNCTIONS:
            raise error(f"unknown function with name {token}", token.place)
        return Call(token.text, self._arguments(), token.place)

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(", "call")
        found: list[Node] = []
        while not self._took(")"):
            if found:
                self._expect(",", "arguments")
            found.append(self._expression(0))
        return tuple(found)

    def _aggregation(self, token: PromqlToken) -> Node:
        clause = self._grouping()
        arguments = self._arguments()
        if clause is None:
            clause = self._grouping()
        wanted = 2 if token.word in AGGREGATION_PARAMETERS else 1
        if len(arguments) != wanted:
            message = f"{token} takes {wanted} argument{'s' * (wanted > 1)}, got {len(arguments)}"
            raise error(f"wrong number of arguments for aggregate expression: {message}", token.place)
        without, labels = clause or (False, ())
        parameter = arguments[0] if wanted == 2 else None
        return Aggregation(token.word, arguments[-1], parameter, labels, without, token.place)

    def _grouping(self) -> tuple[bool, tuple[str, ...]] | None:
        if not self._sees("by", "without"):
            return None
        return self._take().word == "without", self._label_names()

    def _label_names(self) -> tuple[str, ...]:
        self._expect("(", "grouping opts")
        names: list[str] = []
        while not self._took(")"):
            names.append(self._label_name("grouping opts"))
            if not self._sees(")"):
                self._expect(",", "grouping opts")
        return tuple(names)

    def _label_name(self, where: str) -> str:
        token = self._next
        if token.kind is TokenKind.STRING and (name := literals.string(self._take())):
            return name
        if token.kind is TokenKind.NAME and _LABEL.fullmatch(token.text):
            return self._take().text
        raise error(f"unexpected {token} in {where}, expected a label name", token.place)

    # -- selectors and what may follow an operand --------------------------------------------------

    def _selector(self, name: PromqlToken | None) -> Selector:
        place = name.place if name else self._next.place
        matchers = [Matcher(METRIC_NAME, "=", name.text)] if name else []
        if self._took("{"):
            while not self._took("}"):
                self._matcher(matchers)
                if not self._sees("}"):
                    self._expect(",", "label matching")
        if name and any(matcher.name == METRIC_NAME for matcher in matchers[1:]):
            raise error("the metric's name must not be set twice", place)
        return Selector(tuple(matchers), place)

    def _matcher(self, found: list[Matcher]) -> None:
        """One more matcher; a string that stands alone is the metric's name."""
        quoted = self._next.kind is TokenKind.STRING
        name = self._label_name("label matching")
        if quoted and self._sees(",", "}"):
            found.append(Matcher(METRIC_NAME, "=", name))
            return
        if not self._sees("=", "!=", "=~", "!~"):
            raise self._unexpected("label matching", "one of = != =~ !~")
        operator = self._take().text
        if self._next.kind is not TokenKind.STRING:
            raise self._unexpected("label matching", "a string")
        token = self._take()
        try:
            found.append(Matcher(name, operator, literals.string(token)))
        except PatternError as mistake:
            raise error(f"the pattern of {name} is invalid: {mistake}", token.place) from None

    def _modified(self, node: Node, enclosed: bool) -> Node:
        """The operand with all ranges, subqueries, offsets and @ behind it."""
        depth = self._depth
        while self._sees("[", "offset", "@", *_EDGES):
            token = self._take()
            self._deeper(token.place)
            if token.text == "[":
                node = self._ranged(node, enclosed, token.place)
            elif enclosed or not isinstance(node, Selector | Subquery):
                message = "must follow a selector, a range selector or a subquery"
                raise error(f"{token.word} modifier {message}", token.place)
            elif token.word in _EDGES:
                node = _with_edges(node, RangeEdges(token.word), token.place)
            else:
                node = replace(node, shift=self._shift(node.shift, token))
            enclosed = False
        self._depth = depth
        return node

    def _ranged(self, node: Node, enclosed: bool, place: Place) -> Node:
        length = self._positive_duration("range")
        if self._took(":"):
            step = None if self._sees("]") else self._positive_duration("step of a subquery")
            self._expect("]", "subquery")
            return Subquery(node, length, step, place)
        if not self._sees("]"):
            raise self._unexpected("range or subquery", '":" or "]"')
        self._take()
        if enclosed or not isinstance(node, Selector) or node.range is not None:
            raise error("ranges only allowed for vector selectors", place)
        if node.shift != Shift() or node.edges is not None:
            raise error("no offset, @, anchored or smoothed modifiers allowed before range", place)
        return replace(node, range=length)

    def _shift(self, shift: Shift, token: PromqlToken) -> Shift:
        if token.text == "@":
            if shift.at is not None:
                raise error("@ <timestamp> may not be set multiple times", token.place)
            return replace(shift, at=self._moment())
        if shift.offset is not None:
            raise error("offset may not be set multiple times", token.place)
        return replace(shift, offset=self._offset())

    def _moment(self) -> float | Anchor:
        if self._sees("start", "end"):
            anchor = Anchor(self._take().word)
            self._expect("(", "@")
            self._expect(")", "@")
            return anchor
        place, at = self._next.place, self._signed_number("@", "a timestamp")
        if math.isnan(at) or abs(at) > literals.MAX_TIMESTAMP_SECONDS:
            raise error(f"timestamp out of bounds for @ modifier: {at}", place)
        return at


def _with_edges(node: Selector | Subquery, edges: RangeEdges, place: Place) -> Selector:
    if isinstance(node, Subquery) or (node.range is None and edges is RangeEdges.ANCHORED):
        kinds = "range selectors" + " and instant selectors" * (edges is RangeEdges.SMOOTHED)
        raise error(f"{edges.value} modifier can only be used with {kinds}", place)
    if node.edges is not None:
        raise error("anchored and smoothed modifiers may be set only once", place)
    return replace(node, edges=edges)
