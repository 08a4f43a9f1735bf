"""Regular expressions of matchers: RE2's syntax, always anchored at both ends, in time linear in the text.

A person's pattern must not be able to hold up the server, and Python's `re` can be made to backtrack for
ever. So the pattern is parsed here and run as a set of states (Thompson's way); where the tree shows that
`re` cannot go astray, it is used for its speed. Left out of RE2: `\\b`, `\\p{…}`, `[[:alpha:]]`, `\\x41` and
flags inside the pattern; a leading `(?i)` or `(?s)` is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from alerts.errors import PatternError

MAX_PATTERN = 1000
MAX_REPEAT = 1000
MAX_STATES = 2000
MAX_DEPTH = 50
#: Label values are this long at most; so many attempts cost milliseconds: two `.*` and a choice of four.
TEXT = 256
MAX_WAYS = 4 * TEXT * TEXT

Test = Callable[[str], bool]
_CLASSES = {"d": "[0-9]", "D": "[^0-9]", "s": r"[\t\n\f\r ]", "S": r"[^\t\n\f\r ]"}
_CLASSES |= {"w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]"}
_ESCAPES = dict.fromkeys("ntrfva")
_BOUNDS = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")
_GROUP = re.compile(r"\?(:|P?<[A-Za-z_]\w*>)")
_SET = re.compile(r"\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_NOT_IN_SETS = re.compile(r"--|\[:|\\[pPbB0-9xuUNQE]")
_SPECIAL_TO_PYTHON = re.compile(r"\\.|\[|&&|\|\||~~", re.DOTALL)


@dataclass(frozen=True)
class Char:
    """One character, as the Python expression that takes just it."""

    source: str


@dataclass(frozen=True)
class Edge:
    """`^` or `$`: nothing, but only at the start or the end of the text."""

    at_start: bool


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """`most` None: without end."""

    body: Node
    least: int
    most: int | None


Node = Char | Edge | Sequence | Choice | Repeat


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Test:
    """A function that tells whether a whole text matches; PatternError names what is wrong and where."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern may have {MAX_PATTERN} characters, not {len(pattern)}", MAX_PATTERN)
    parser = _Parser(pattern)
    tree = parser.parse()
    flags = re.DOTALL | (re.IGNORECASE if parser.fold else 0)
    if _ways(tree) > MAX_WAYS:
        return _Machine(tree, flags).matches
    compiled = re.compile(_python(tree), flags)
    return lambda text: compiled.fullmatch(text) is not None


def _ways(node: Node) -> float:
    """In how many ways `re` may try to match a text of TEXT characters, at most."""
    match node:
        case Sequence(parts):
            return math.prod(_ways(part) for part in parts)
        case Choice(options):
            return sum(_ways(option) for option in options)
        case Repeat(Char(), least, most):
            return TEXT if most is None else min(TEXT, most - least + 1)
        case Repeat():
            return math.inf
    return 1


def _python(node: Node) -> str:
    """The tree as a Python expression."""
    match node:
        case Char(source):
            return source
        case Edge(at_start):
            return r"\A" if at_start else r"\Z"
        case Sequence(parts):
            return "".join(_python(part) for part in parts)
        case Choice(options):
            return f"(?:{'|'.join(_python(option) for option in options)})"
        case Repeat(body, least, most):
            return f"(?:{_python(body)}){{{least},{'' if most is None else most}}}"


class _Parser:
    """Recursive descent over the pattern; `at` is the place of the next character."""

    def __init__(self, pattern: str):
        self._text, self._at, self._depth = pattern, 0, 0
        self.fold = False

    def parse(self) -> Node:
        while flag := next((f for f in ("(?i)", "(?s)") if self._text.startswith(f, self._at)), None):
            self.fold = self.fold or flag == "(?i)"
            self._at += len(flag)
        tree = self._choice()
        if self._at < len(self._text):
            raise self._error("unopened ')'")
        return tree

    def _error(self, message: str, back: int = 0) -> PatternError:
        return PatternError(message, self._at + 1 - back)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str = "") -> str:
        found = self._peek()
        if not found or (expected and found != expected):
            raise self._error(f"{expected or 'a character'} is missing")
        self._at += 1
        return found

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._peek() == "|":
            self._take()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self) -> Node:
        node = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return node
        if self._peek() == "?":  # lazy or greedy: all the same to a yes or no
            self._take()
        if self._bounds() is not None:
            raise self._error("a repetition of a repetition needs a group")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek() in simple:
            return simple[self._take()]
        found = _BOUNDS.match(self._text, self._at)
        if not found:
            return None
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._error(f"a repetition must be {{n,m}} with n <= m <= {MAX_REPEAT}")
        self._at = found.end()
        return least, most

    def _atom(self) -> Node:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return Char(self._set())
            case ".":
                return Char(".")
            case "^" | "$":
                return Edge(char == "^")
            case "\\":
                return Char(self._escape())
            case "*" | "+" | "?":
                raise self._error(f"nothing to repeat before {char!r}", back=1)
        return Char(re.escape(char))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"groups are nested deeper than {MAX_DEPTH}", back=1)
        named = _GROUP.match(self._text, self._at)
        self._at = named.end() if named else self._at
        if self._peek() == "?":
            raise self._error("only (…), (?:…) and (?P<name>…) are taken")
        inner = self._choice()
        self._take(")")
        self._depth -= 1
        return inner

    def _escape(self) -> str:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _ESCAPES:
            return f"\\{char}"
        if char.isalnum():
            raise self._error(f"the escape \\{char} is not taken", back=2)
        return re.escape(char)

    def _set(self) -> str:
        """A bracketed set; Python reads these as RE2 does, but for what is refused or escaped here."""
        found = _SET.match(self._text, self._at)
        if not found:
            raise self._error("']' is missing")
        if _NOT_IN_SETS.search(found[0]):
            raise self._error("only characters, ranges, \\d, \\s, \\w and \\- stand in a set")
        source = "[" + _SPECIAL_TO_PYTHON.sub(_escaped, found[0])
        try:
            re.compile(source)
        except re.error as error:
            raise self._error(f"a set cannot be read: {error.msg}") from None
        self._at = found.end()
        return source


def _escaped(found: re.Match[str]) -> str:
    """What Python warns about in sets, escaped; what is escaped already, as it is; classes spelt out."""
    text = found[0]
    if not text.startswith("\\"):
        return "".join(f"\\{char}" for char in text)
    return _CLASSES[text[1]][1:-1] if text[1] in "dsw" else text


@dataclass
class _Machine:
    """Numbered states: one takes a character and passes on, another leads on at once, to several maybe."""

    tree: Node
    flags: int
    tests: list[re.Pattern[str] | Edge | None] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._end = self._state(None)
        self._start = self._build(self.tree, self._end)

    def _state(self, test: re.Pattern[str] | Edge | None, *ways: int) -> int:
        if len(self.tests) >= MAX_STATES:
            raise PatternError("the repetitions of this pattern come to too much", 1)
        self.tests.append(test)
        self.ways.append(list(ways))
        return len(self.tests) - 1

    def _build(self, node: Node, then: int) -> int:
        """The state to enter so that `node` is matched and `then` comes after it."""
        match node:
            case Char(source):
                return self._state(re.compile(source, self.flags), then)
            case Edge():
                return self._state(node, then)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case Choice(options):
                return self._state(None, *[self._build(option, then) for option in options])
            case Repeat(body, least, most):
                return self._repeat(body, least, most, then)

    def _repeat(self, body: Node, least: int, most: int | None, then: int) -> int:
        if most is None:
            loop = self._state(None, then)
            self.ways[loop].insert(0, self._build(body, loop))
            then = loop
        for _ in range((most or least) - least):
            then = self._state(None, self._build(body, then), then)
        for _ in range(least):
            then = self._build(body, then)
        return then

    def matches(self, text: str) -> bool:
        states = self._reach({self._start}, 0, len(text))
        for place, char in enumerate(text, 1):
            passed = {self.ways[s][0] for s in states if self._passes(s, char)}
            states = self._reach(passed, place, len(text) - place)
            if not states:
                return False
        return self._end in states

    def _passes(self, state: int, char: str) -> bool:
        test = self.tests[state]
        return isinstance(test, re.Pattern) and test.fullmatch(char) is not None

    def _reach(self, states: set[int], before: int, after: int) -> set[int]:
        """All states reached without taking a character; `before` and `after` count those on either side."""
        reached, waiting = set(states), list(states)
        while waiting:
            state = waiting.pop()
            test = self.tests[state]
            if isinstance(test, re.Pattern) or (
                isinstance(test, Edge) and (before if test.at_start else after)
            ):
                continue
            new = [way for way in self.ways[state] if way not in reached]
            reached.update(new)
            waiting += new
        return reached
