"""The expression tree. Frozen; every node knows where in the text it begins.

Made by the parser, read by the evaluator and by whoever wants to know which series a rule selects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum

from alerts.matching.labels import Matcher


class ValueType(Enum):
    """What an expression evaluates to; the values are Prometheus' words in messages."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, from 1."""

    line: int
    column: int


class Anchor(Enum):
    """`@ start()` and `@ end()`: the ends of the range query, or the moment of an instant one."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class Shift:
    """`offset` (seconds, positive looks back) and `@` (Unix seconds, or an end of the query); None: not set."""

    offset: float | None = None
    at: float | Anchor | None = None


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    place: Place


@dataclass(frozen=True, slots=True)
class StringLiteral:
    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Selector:
    """`name{matchers}`; with `range` (seconds) a range vector. The name is among the matchers."""

    matchers: tuple[Matcher, ...]
    place: Place
    range: float | None = None
    shift: Shift = Shift()


@dataclass(frozen=True, slots=True)
class Subquery:
    """`inner[range:step]`, in seconds; `step` None is the engine's default."""

    inner: Node
    range: float
    step: float | None
    place: Place
    shift: Shift = Shift()


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`operator by|without (labels) (parameter, inner)`."""

    operator: str
    inner: Node
    parameter: Node | None
    labels: tuple[str, ...]
    without: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Matching:
    """How two vectors find each other: by these labels (`on`) or by all but these.

    `group`: "left" or "right" is the side that may have many; None is one to one. `include`: labels that
    the one side lends to the result.
    """

    labels: tuple[str, ...] = ()
    on: bool = False
    group: str | None = None
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Node
    right: Node
    place: Place
    as_bool: bool = False
    matching: Matching | None = None


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus; a unary plus leaves no node."""

    inner: Node
    place: Place


Node = Number | StringLiteral | Selector | Subquery | Call | Aggregation | Binary | Negation


def children(node: Node) -> Iterator[Node]:
    """The expressions right under a node, from left to right."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def selectors(node: Node) -> Iterator[Selector]:
    """Every selector of an expression: what a rule reads."""
    if isinstance(node, Selector):
        yield node
    for child in children(node):
        yield from selectors(child)
