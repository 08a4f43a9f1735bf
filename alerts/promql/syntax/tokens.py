"""The lexer: text to tokens, each with its place.

Keywords come out as names, since most of them may also name a metric or a label; the parser knows by
where they stand. One regular expression does the cutting; it never looks back, so time is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from alerts.promql.errors import ParseError
from alerts.promql.syntax.nodes import Place

#: Grafana makes long expressions of a variable with many values; reading one this long takes about a second.
MAX_LENGTH = 256 * 1024


class TokenKind(Enum):
    NUMBER = auto()
    DURATION = auto()
    STRING = auto()
    NAME = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class PromqlToken:
    """`text` as written, a string with its quotes."""

    kind: TokenKind
    text: str
    place: Place

    @property
    def word(self) -> str:
        """The text to compare with keywords, which may be written in any case, and with symbols."""
        if self.kind is TokenKind.STRING:
            return ""
        return self.text.lower() if self.kind is TokenKind.NAME else self.text

    def __str__(self) -> str:
        if self.kind in (TokenKind.END, TokenKind.STRING):
            return self.text or "the end"
        return f'"{self.text}"'


_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_TOKEN = re.compile(
    r"""
    (?P<DURATION> (?:[0-9]+(?:ms|[ywdhms]))+ (?!\w) )
  | (?P<NUMBER>   0[xX][0-9a-fA-F_]+ | (?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)? )
  | (?P<STRING>   "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | `[^`]*` )
  | (?P<NAME>     [a-zA-Z_:][a-zA-Z0-9_:]* )
  | (?P<SYMBOL>   =~ | !~ | == | != | >= | <= | </ | >/ | [-+*/%^=<>(){}\[\],:@] )
    """,
    re.VERBOSE,
)
#: Between brackets a colon parts range and step; it begins no name there.
_COLON = re.compile(r"(?P<SYMBOL>:)")


def tokenize(text: str) -> Iterator[PromqlToken]:
    """All tokens, the last one END, each read when it is asked for. ParseError where something cannot be one."""
    lines = _Lines(text)
    if len(text) > MAX_LENGTH:
        message = f"an expression may have {MAX_LENGTH} characters, not {len(text)}"
        raise ParseError(message, 1, 1)
    at, bracketed = _after_blank(text, 0), False
    while at < len(text):
        found = (bracketed and _COLON.match(text, at)) or _TOKEN.match(text, at)
        if not found:
            raise _unreadable(text, at, lines.place(at))
        token = PromqlToken(TokenKind[found.lastgroup or ""], found[0], lines.place(at))
        if token.kind is TokenKind.NUMBER and (text[found.end() : found.end() + 1] or " ").isalnum():
            raise error(f"bad number or duration {text[at : found.end() + 1]!r}", token.place)
        bracketed = token.text == "[" or (bracketed and token.text != "]")
        yield token
        at = _after_blank(text, found.end())
    yield PromqlToken(TokenKind.END, "", lines.place(len(text)))


def error(message: str, place: Place) -> ParseError:
    return ParseError(message, place.line, place.column)


def _after_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _unreadable(text: str, at: int, place: Place) -> ParseError:
    if text[at] in "\"'`":
        return error(f"the closing {text[at]} of a string is missing", place)
    return error(f"unexpected character {text[at]!r}", place)


class _Lines:
    """Offset in the text to line and column."""

    def __init__(self, text: str):
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def place(self, at: int) -> Place:
        line = bisect_right(self._starts, at)
        return Place(line, at - self._starts[line - 1] + 1)
