"""Regular expressions in RE2's syntax, as Prometheus has them, run by RE2 itself.

RE2 matches in time linear in the text and within a fixed memory, so a pattern from outside cannot hold up
the server. Matchers and `label_replace` anchor a pattern at both ends and let `.` match a newline
(Prometheus compiles `^(?s:…)$`); template functions search without either (Go's `regexp` defaults).
Replacements expand `$1`, `$name` and `${name}` by Go's rules. Every function is safe to call from any
thread; compiled patterns are cached. A pattern that RE2 rejects raises PatternError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import re2

from alerts.errors import PatternError

#: Memory of one compiled pattern: a program of some 40,000 instructions and its cached states.
MAX_PATTERN_MEMORY_BYTES = 1 << 20
#: Characters of a label that `label_replace` expands.
MAX_EXPANDED = 1 << 20

#: `$$`, `${name}` or `$name`; Go's names are letters, digits and underscores.
_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class Match(Protocol):
    """The part of RE2's match object that is used here."""

    def __getitem__(self, group: int | str) -> str | None: ...
    def start(self) -> int: ...
    def end(self) -> int: ...


@lru_cache(maxsize=1024)
def _compiled(pattern: str, dot_matches_newline: bool, captures: bool = True) -> Any:
    options = re2.Options()
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    options.dot_nl = dot_matches_newline
    options.never_capture = not captures
    options.log_errors = False  # RE2 would write them to standard error
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise PatternError("invalid UTF-8", error.start + 1) from None
    except re2.error as error:
        raise _pattern_error(pattern, error) from None


def _pattern_error(pattern: str, error: re2.error) -> PatternError:
    """RE2's message, and the place of the fragment that it names."""
    message = error.args[0].decode(errors="replace")
    fragment = message.partition(": ")[2]
    return PatternError(message[:200], pattern.find(fragment) + 1 if fragment in pattern else 1)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a predicate: does the whole text match? PatternError if RE2 rejects the pattern."""
    _compiled(pattern, True, captures=False)
    return lambda text: _matches_whole(pattern, text)


@lru_cache(maxsize=20_000)  # the same label values are matched at every evaluation; RE2's binding takes 2 µs
def _matches_whole(pattern: str, text: str) -> bool:
    return _compiled(pattern, True, captures=False).fullmatch(_utf8(text)) is not None


def compile_replacement(pattern: str, template: str) -> Callable[[str], str | None]:
    """Return a function: `template` with the groups of a whole match filled in, None without a match."""
    compiled = _compiled(pattern, True)
    groups, names = compiled.groups, compiled.groupindex

    def replaced(text: str) -> str | None:
        found = compiled.fullmatch(_utf8(text).decode())
        return None if found is None else _expand(template, found, groups, names, MAX_EXPANDED)

    return replaced


def search(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text (Go's `regexp.MatchString`)."""
    return _compiled(pattern, False).search(_utf8(text)) is not None


def replace_all(pattern: str, template: str, text: str, max_length: int) -> str:
    """Replace every match (Go's `ReplaceAllString`). ValueError where the result exceeds `max_length`."""
    compiled = _compiled(pattern, False)
    groups, names = compiled.groups, compiled.groupindex
    text = _utf8(text).decode()
    parts, length, end = [], 0, 0
    for found in compiled.finditer(text):
        part = text[end : found.start()]
        if found.end() > end or found.start() == 0:  # no empty match right behind another match
            part += _expand(template, found, groups, names, max_length)
        parts.append(part)
        length, end = length + len(part), found.end()
        if length > max_length:
            break
    parts.append(text[end:])
    if length + len(parts[-1]) > max_length:
        raise ValueError(f"the replaced text is longer than {max_length} characters")
    return "".join(parts)


def _expand(template: str, found: Match, groups: int, names: dict[str, int], max_length: int) -> str:
    """Go's `Regexp.Expand`: an unknown group is empty, and a `$` before no name stands for itself.

    ValueError where the groups exceed `max_length`.
    """
    length = 0

    def bounded(reference: re.Match[str]) -> str:
        nonlocal length
        text = value(reference[1] or reference[2])
        length += len(text)
        if length > max_length:
            raise ValueError(f"the replaced text is longer than {max_length} characters")
        return text

    def value(name: str | None) -> str:
        if name is None:
            return "$"
        if _NUMBER.fullmatch(name):
            return (found[int(name)] or "") if int(name) <= groups else ""
        return (found[name] or "") if name in names else ""

    return _REFERENCE.sub(bounded, template)


def _utf8(text: str) -> bytes:
    """The text in UTF-8; lone surrogates, which it cannot hold, become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
