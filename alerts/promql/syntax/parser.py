"""Text to expression tree: a Pratt parser for PromQL as of Prometheus 2.42, without native histograms.

Beyond 2.42 it takes quoted metric and label names (`{"a.b", "c d"="x"}`), durations as numbers and numbers
as durations. Depth and length are bounded, so no text can make it recurse or run without end; every error
states line and column. Called by the rule loader and the query API; `checks` then looks at the types.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from alerts.errors import PatternError
from alerts.matching.labels import Matcher
from alerts.promql.errors import ParseError
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax import literals
from alerts.promql.syntax.checks import check
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
    NATIVE_HISTOGRAM_FUNCTIONS,
    SETS,
)
from alerts.promql.syntax.tokens import PromqlToken, TokenKind, error, tokenize

MAX_DEPTH = 100
_POWERS = (("or",), ("and", "unless"), tuple(COMPARISONS), ("+", "-"), ("*", "/", "%", "atan2"), ("^",))
#: How strongly an operator binds; equal ones group from the left, `^` from the right.
POWER = {operator: power for power, operators in enumerate(_POWERS, 1) for operator in operators}
UNARY = POWER["*"]
#: Names that cannot be a metric by themselves.
_RESERVED = frozenset({"bool", "on", "ignoring", "group_left", "group_right", "atan2"})
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def parse(text: str) -> Node:
    """Parse an expression and check its types. ParseError states what is wrong and where."""
    parser = _Parser(tokenize(text))
    tree = parser.whole()
    _bounded(tree)
    check(tree)
    return tree


def _bounded(tree: Node) -> None:
    """A chain of operators makes a deep tree without nesting; whoever walks trees relies on this bound."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep(tree.place)
        level = [child for node in level for child in children(node)]


def _too_deep(place: Place) -> ParseError:
    return error(f"the expression is nested, or chained, deeper than {MAX_DEPTH}", place)


class _Parser:
    """`_at` is the next token; every method leaves it behind what it took."""

    def __init__(self, tokens: list[PromqlToken]):
        self._tokens, self._at, self._depth = tokens, 0, 0

    # -- tokens ------------------------------------------------------------------------------------

    @property
    def _next(self) -> PromqlToken:
        return self._tokens[self._at]

    def _take(self) -> PromqlToken:
        token = self._next
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def _sees(self, *symbols: str) -> bool:
        """Whether the next token is one of these symbols or (in any case) keywords."""
        return self._next.word in symbols

    def _took(self, word: str) -> bool:
        found = self._sees(word)
        self._at += found
        return found

    def _expect(self, word: str, where: str) -> PromqlToken:
        if not self._sees(word):
            raise self._unexpected(where, f'"{word}"')
        return self._take()

    def _unexpected(self, where: str, expected: str) -> ParseError:
        return error(f"unexpected {self._next} in {where}, expected {expected}", self._next.place)

    # -- expressions -------------------------------------------------------------------------------

    def whole(self) -> Node:
        if self._next.kind is TokenKind.END:
            raise error("no expression found in input", self._next.place)
        tree = self._expression(0)
        if self._at < len(self._tokens) - 1:
            raise self._unexpected("expression", "an operator or the end")
        return tree

    def _expression(self, above: int) -> Node:
        """What follows, with all operators that bind stronger than `above`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep(self._next.place)
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
            return replace(inner, value=-inner.value)
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
        if token.text in NATIVE_HISTOGRAM_FUNCTIONS:
            raise error(f"{token} needs native histograms, which are not supported", token.place)
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
        named = bool(name)
        if self._took("{"):
            while not self._took("}"):
                named = self._matcher(matchers) or named
                if not self._sees("}"):
                    self._expect(",", "label matching")
        if named and sum(matcher.name == METRIC_NAME for matcher in matchers) > 1:
            raise error("the metric's name must not be set twice", place)
        if all(matcher.matches({}) for matcher in matchers):
            raise error("vector selector must contain at least one non-empty matcher", place)
        return Selector(tuple(matchers), place)

    def _matcher(self, found: list[Matcher]) -> bool:
        """One more matcher; whether it is the metric's quoted name, standing alone."""
        quoted = self._next.kind is TokenKind.STRING
        name = self._label_name("label matching")
        if quoted and self._sees(",", "}"):
            found.append(Matcher(METRIC_NAME, "=", name))
            return True
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
        return False

    def _modified(self, node: Node, enclosed: bool) -> Node:
        """The operand with all ranges, subqueries, offsets and @ behind it."""
        depth = self._depth
        while self._sees("[", "offset", "@"):
            token = self._take()
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise _too_deep(token.place)
            if token.text == "[":
                node = self._ranged(node, enclosed, token.place)
            elif enclosed or not isinstance(node, Selector | Subquery):
                message = "must follow a selector, a range selector or a subquery"
                raise error(f"{token.word} modifier {message}", token.place)
            else:
                node = replace(node, shift=self._shift(node.shift, token))
            enclosed = False
        self._depth = depth
        return node

    def _ranged(self, node: Node, enclosed: bool, place: Place) -> Node:
        length = self._duration("range", positive=True)
        if self._took(":"):
            step = None if self._sees("]") else self._duration("step of a subquery", positive=True)
            self._expect("]", "subquery")
            return Subquery(node, length, step, place)
        if not self._sees("]"):
            raise self._unexpected("range or subquery", '":" or "]"')
        self._take()
        if enclosed or not isinstance(node, Selector) or node.range is not None:
            raise error("ranges only allowed for vector selectors", place)
        if node.shift != Shift():
            raise error("no offset or @ modifiers allowed before range", place)
        return replace(node, range=length)

    def _shift(self, shift: Shift, token: PromqlToken) -> Shift:
        if token.text == "@":
            if shift.at is not None:
                raise error("@ <timestamp> may not be set multiple times", token.place)
            return replace(shift, at=self._moment())
        if shift.offset is not None:
            raise error("offset may not be set multiple times", token.place)
        sign = self._sign()
        return replace(shift, offset=sign * self._duration("offset"))

    def _moment(self) -> float | Anchor:
        if self._sees("start", "end"):
            anchor = Anchor(self._take().word)
            self._expect("(", "@")
            self._expect(")", "@")
            return anchor
        sign, token = self._sign(), self._take()
        if token.kind not in (TokenKind.NUMBER, TokenKind.DURATION) and token.word not in ("inf", "nan"):
            raise error(f"unexpected {token} in @, expected a timestamp", token.place)
        at = sign * literals.number(token)
        if math.isnan(at) or abs(at) > literals.MAX_TIMESTAMP_SECONDS:
            raise error(f"timestamp out of bounds for @ modifier: {at}", token.place)
        return at

    def _sign(self) -> int:
        if not self._sees("+", "-"):
            return 1
        return -1 if self._take().text == "-" else 1

    def _duration(self, where: str, positive: bool = False) -> float:
        token = self._next
        if token.kind not in (TokenKind.DURATION, TokenKind.NUMBER):
            raise self._unexpected(where, "a duration")
        seconds = literals.duration(self._take())
        if positive and seconds <= 0:
            raise error("duration must be greater than 0", token.place)
        return seconds
