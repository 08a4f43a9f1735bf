"""Durations of ranges, steps and offsets: literals, arithmetic, `step()`, `range()`, `min(…)` and `max(…)`.

A duration is computed while it is parsed, so the parser must know the step and the range of the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from alerts.promql.syntax import literals
from alerts.promql.syntax.cursor import TokenCursor
from alerts.promql.syntax.nodes import Place
from alerts.promql.syntax.tokens import PromqlToken, TokenKind, error

_POWER = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 3}
_EXTREMES: dict[str, Callable[[float, float], float]] = {
    "min": min,
    "min_of": min,
    "max": max,
    "max_of": max,
}


class DurationParser(TokenCursor):
    """Parser of durations. `step` and `length`: step and range of the query in seconds, 0 in an instant query."""

    def __init__(self, text: str, step: float, length: float):
        super().__init__(text)
        self._spans = {"step": step, "range": length}

    def _positive_duration(self, where: str) -> float:
        """What stands between brackets: an expression, greater than 0."""
        place = self._next.place
        seconds = self._bounded(self._span(where, 0), place)
        if seconds <= 0:
            raise error("duration must be greater than 0", place)
        return seconds

    def _offset(self) -> float:
        """What may follow `offset`: one operand with a sign; an expression needs parentheses."""
        place, sign = self._next.place, self._sign()
        return self._bounded(sign * self._span_operand("offset"), place)

    def _bounded(self, seconds: float, place: Place) -> float:
        if not abs(seconds) < literals.MAX_DURATION_SECONDS:
            raise error("duration out of range", place)
        return round(seconds, 3)

    def _span(self, where: str, above: int) -> float:
        self._deeper(self._next.place)
        left = self._signed_span(where)
        while (power := _POWER.get(self._next.word, 0)) > above:
            token = self._take()
            right = self._span(where, power - 1 if token.text == "^" else power)
            left = _computed(token, left, right)
        self._depth -= 1
        return left

    def _signed_span(self, where: str) -> float:
        if self._sees("+", "-"):
            return self._sign() * self._span(where, _POWER["*"])
        return self._span_operand(where)

    def _span_operand(self, where: str) -> float:
        if self._took("("):
            inner = self._span(where, 0)
            self._expect(")", where)
            return inner
        if self._sees(*self._spans, *_EXTREMES):
            return self._span_call(where)
        if self._next.kind is TokenKind.DURATION:
            return literals.duration(self._take())
        if self._next.kind is TokenKind.NUMBER:
            return literals.number(self._take())
        raise self._unexpected(where, "a duration")

    def _span_call(self, where: str) -> float:
        name = self._take().word
        self._expect("(", where)
        found = self._spans.get(name, 0.0)
        if name in _EXTREMES:
            first = self._span(where, 0)
            self._expect(",", where)
            found = _EXTREMES[name](first, self._span(where, 0))
        self._expect(")", where)
        return found


def _computed(token: PromqlToken, left: float, right: float) -> float:
    if token.text in "/%" and right == 0:
        raise error(f"{'division' if token.text == '/' else 'modulo'} by zero", token.place)
    match token.text:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "%":
            return math.fmod(left, right)
    try:
        return math.pow(left, right)
    except (OverflowError, ValueError):
        raise error("duration out of range", token.place) from None
