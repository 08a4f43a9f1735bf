"""Values of number, duration and string tokens, by the rules of Prometheus (and Go)."""

from __future__ import annotations

import re

from alerts.promql.errors import ParseError
from alerts.promql.syntax.tokens import PromqlToken, TokenKind, error

_UNITS = {"y": 365 * 86400.0, "w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
#: Maximum absolute Unix time; milliseconds then never overflow.
MAX_TIMESTAMP_SECONDS = 1e13
#: Go stores nanoseconds in 63 bits.
MAX_DURATION_SECONDS = 2**63 / 1e9

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_ESCAPE = re.compile(
    r"\\(?:x(?P<byte>[0-9a-fA-F]{2})|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-7]{3})|(?P<simple>.))"
)


def number(token: PromqlToken) -> float:
    """Decimal, hexadecimal, octal with a leading 0, `inf`, `nan`, or a duration as its seconds."""
    if token.kind is TokenKind.DURATION:
        return duration(token)
    text = token.text.replace("_", "")
    try:
        if re.fullmatch(r"0[0-7]+", text):
            return float(int(text, 8))
        if text[:2] in ("0x", "0X"):
            return float(int(text[2:] or "0", 16))
    except OverflowError:
        raise error(f"number out of range: {token}", token.place) from None
    return float(text)


def duration(token: PromqlToken) -> float:
    """`1h30m` (or a plain number of seconds) in seconds, to the millisecond."""
    if token.kind is TokenKind.NUMBER:
        return round(number(token), 3)
    found = _DURATION.fullmatch(token.text)
    if found is None:
        raise error(f"not a valid duration: {token}; units descend and come once each", token.place)
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    seconds = sum(float(count) * unit for count, unit in parts if count is not None)
    if seconds >= MAX_DURATION_SECONDS:
        raise error(f"duration out of range: {token}", token.place)
    return seconds


def string(token: PromqlToken) -> str:
    """The text between the quotes with escapes resolved; between backquotes unchanged."""
    quote, inside = token.text[0], token.text[1:-1]
    if quote == "`":
        return inside
    try:
        encoded = _ESCAPE.sub(lambda found: _unescaped(found, quote), inside)
        return encoded.encode("utf-8", "surrogateescape").decode("utf-8")
    except (ValueError, OverflowError) as mistake:
        raise _bad(token, mistake) from None


def _bad(token: PromqlToken, mistake: Exception) -> ParseError:
    reason = "not UTF-8" if isinstance(mistake, UnicodeError) else str(mistake)
    return error(f"the string {token} cannot be read: {reason}", token.place)


def _unescaped(found: re.Match[str], quote: str) -> str:
    """The character; a byte of its own goes as a surrogate, so that several may make one character."""
    if found["simple"]:
        if found["simple"] == quote:
            return quote
        if found["simple"] not in _SIMPLE:
            raise ValueError(f"unknown escape {found[0]}")
        return chr(_SIMPLE[found["simple"]])
    if found["byte"] or found["octal"]:
        byte = int(found["byte"], 16) if found["byte"] else int(found["octal"], 8)
        return bytes([byte]).decode("ascii", "surrogateescape")
    return chr(int(found["four"] or found["eight"], 16))
