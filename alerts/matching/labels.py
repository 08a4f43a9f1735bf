"""Label matchers and label-set fingerprints, as in Prometheus and Alertmanager.

An absent label equals the empty string; regular expressions are anchored at both ends. Used by rules,
routes, silences and `GET /api/v1/queries?label=`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import xxhash

from alerts.errors import MatcherError, PatternError
from alerts.matching.regex import compile_pattern

Labels = Mapping[str, str]
MAX_SELECTOR = 4096

_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_OPERATOR = re.compile(r"(=~|!~|!=|=)\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r'(?:\\"|[^,"])*')
#: A name or value of the UTF-8 syntax: characters that are not reserved, or Go's string.
_LITERAL = re.compile(r"""\s*(?:([^\s{}!=~,\\"'`]+)|("(?:[^"\\\n]|\\.)*"))\s*""")
_NEXT = re.compile(r"\s*(,|$)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Matcher:
    """A condition on one label. `operator`: `=`, `!=`, `=~` or `!~`. Raises PatternError for a bad pattern."""

    name: str
    operator: str
    value: str

    def __post_init__(self) -> None:
        if self.operator in ("=~", "!~"):
            compile_pattern(self.value)

    def matches(self, labels: Labels) -> bool:
        """Whether the label's value meets the condition."""
        value = labels.get(self.name, "")
        match self.operator:
            case "=":
                return value == self.value
            case "!=":
                return value != self.value
            case "=~":
                return compile_pattern(self.value)(value)
        return not compile_pattern(self.value)(value)

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.operator}"{quoted}"'


def matches(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether a label set meets every matcher."""
    return all(matcher.matches(labels) for matcher in matchers)


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """Parse `{team="data",env=~"prod|stage"}`, with or without braces and quotes.

    As Alertmanager does: in its classic syntax, where an unquoted value ends at the next comma, and else in its
    UTF-8 syntax, where a name may be quoted. An empty text gives no matchers. Raises MatcherError.
    """
    if len(text) > MAX_SELECTOR:
        raise MatcherError(f"a selector must not exceed {MAX_SELECTOR} characters", MAX_SELECTOR)
    inside, start = _without_braces(text)
    try:
        return _parsed(inside, start, _matcher)
    except MatcherError as error:
        try:
            return _parsed(inside, start, _utf8_matcher)
        except MatcherError:
            raise error from None


def _parsed(inside: str, at: int, parse: Callable[[str, int], tuple[Matcher, int]]) -> tuple[Matcher, ...]:
    found = []
    while inside[at:].strip():
        matcher, at = parse(inside, at)
        found.append(matcher)
    return tuple(found)


def _without_braces(text: str) -> tuple[str, int]:
    """The text up to the closing brace, and the offset behind the opening one; columns stay valid."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] != "{":
        return text, 0
    if not text.rstrip().endswith("}"):
        raise MatcherError("'}' is missing", len(text) + 1)
    return text.rstrip()[:-1], start + 1


def _matcher(text: str, at: int) -> tuple[Matcher, int]:
    name = _expect(_NAME, text, at, "expected a label name")
    operator = _expect(_OPERATOR, text, name.end(), "expected one of = != =~ !~")
    value, end = _value(text, operator.end())
    matcher = _built(name[1], operator, value)
    return matcher, _expect(_NEXT, text, end, "expected a comma").end()


def _utf8_matcher(text: str, at: int) -> tuple[Matcher, int]:
    name = _expect(_LITERAL, text, at, "expected a label name")
    operator = _expect(_OPERATOR, text, name.end(), "expected one of = != =~ !~")
    value = _expect(_LITERAL, text, operator.end(), "expected a value")
    matcher = _built(_literal(name), operator, _literal(value))
    return matcher, _expect(_NEXT, text, value.end(), "expected a comma").end()


def _literal(found: re.Match[str]) -> str:
    """A literal without its quotes; the escapes of Go's strings are those of Python's."""
    if found[1] is not None:
        return found[1]
    try:
        # As bytes, because Go's \\x stands for a byte of UTF-8; \\u exists in texts only.
        in_bytes = found[2].isascii() and "\\u" not in found[2].lower()
        text = ast.literal_eval(f"b{found[2]}" if in_bytes else found[2])
        return text.decode() if isinstance(text, bytes) else str(text)
    except (SyntaxError, ValueError):
        raise MatcherError("a text between quotes cannot be read", found.start() + 1) from None


def _built(name: str, operator: re.Match[str], value: str) -> Matcher:
    try:
        return Matcher(name, operator[1], value)
    except PatternError as error:
        raise MatcherError(f"the pattern of {name} is invalid: {error}", operator.end() + 1) from None


def _value(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] == '"':
        quoted = _expect(_QUOTED, text, at, "the closing quote is missing")
        return _unescaped(quoted[1]), quoted.end()
    bare = _BARE.match(text, at)
    return (_unescaped(bare[0].strip()), bare.end()) if bare else ("", at)


def _unescaped(text: str) -> str:
    """A value without its escapes; a backslash before another character stands for itself."""
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[0]), text)


def _expect(pattern: re.Pattern[str], text: str, at: int, message: str) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise MatcherError(message, at + 1)
    return found


def fingerprint(labels: Labels) -> str:
    """Alertmanager's fingerprint: 64-bit FNV-1a of the sorted labels, as 16 hex digits."""
    return _fingerprint(tuple(sorted(labels.items())))


@lru_cache(maxsize=20_000)  # every evaluation asks for the same alerts, and hashing takes 0.1 µs a byte
def _fingerprint(labels: tuple[tuple[str, str], ...]) -> str:
    value = 0xCBF29CE484222325
    for name, text in labels:
        for byte in name.encode() + b"\xff" + text.encode(errors="replace") + b"\xff":
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def label_hash(labels: Labels) -> int:
    """Prometheus' hash of a label set, 64 bits: xxHash of the sorted names and values, each behind its length.

    `limit_ratio` chooses series by it, so the same ones as Prometheus does.
    """
    texts = (text.encode(errors="replace") for pair in sorted(labels.items()) for text in pair)
    return xxhash.xxh64_intdigest(b"".join(_length(len(text)) + text for text in texts))


def _length(size: int) -> bytes:
    return bytes([size]) if size < 255 else b"\xff" + size.to_bytes(3, "little")
