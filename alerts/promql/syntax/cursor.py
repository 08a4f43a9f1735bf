"""Token cursor: the next token of an expression, and what it may be. Base of the parsers."""

from __future__ import annotations

from alerts.promql.errors import ParseError
from alerts.promql.syntax.nodes import Place
from alerts.promql.syntax.tokens import PromqlToken, TokenKind, error, tokenize

MAX_DEPTH = 100


def too_deep(place: Place) -> ParseError:
    """The refusal of an expression that is nested deeper than MAX_DEPTH."""
    return error(f"the expression is nested deeper than {MAX_DEPTH}", place)


class TokenCursor:
    """`_next` is the next token; every method leaves it behind what it took."""

    def __init__(self, text: str):
        self._tokens = tokenize(text)
        self._next = next(self._tokens)
        self._held: list[PromqlToken] = []
        self._depth = 0

    def _take(self) -> PromqlToken:
        token = self._next
        if token.kind is not TokenKind.END:
            self._next = self._held.pop() if self._held else next(self._tokens)
        return token

    def _put_back(self, token: PromqlToken) -> None:
        """Undo the last `_take`."""
        self._held.append(self._next)
        self._next = token

    def _at_end(self) -> bool:
        return self._next.kind is TokenKind.END

    def _sees(self, *symbols: str) -> bool:
        """Whether the next token is one of these symbols or (in any case) keywords."""
        return self._next.word in symbols

    def _took(self, word: str) -> bool:
        found = self._sees(word)
        if found:
            self._take()
        return found

    def _expect(self, word: str, where: str) -> PromqlToken:
        if not self._sees(word):
            raise self._unexpected(where, f'"{word}"')
        return self._take()

    def _unexpected(self, where: str, expected: str) -> ParseError:
        return error(f"unexpected {self._next} in {where}, expected {expected}", self._next.place)

    def _deeper(self, place: Place) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep(place)

    def _sign(self) -> int:
        if not self._sees("+", "-"):
            return 1
        return -1 if self._take().text == "-" else 1
