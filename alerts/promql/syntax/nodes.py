"""PromQL syntax tree. Immutable; every node knows its place in the text.

Built by the parser, read by the evaluator and by code that needs the selectors of a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum

from alerts.matching.labels import Matcher


class ValueType(Enum):
    """Type of an expression; the values are Prometheus' terms in messages."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, counted from 1."""

    line: int
    column: int


class Anchor(Enum):
    """`@ start()` and `@ end()`: the ends of a range query, or the time of an instant query."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class Shift:
    """`offset` (seconds, positive looks back) and `@` (Unix seconds, or an end of the query); None: not set."""

    offset: float | None = None
    at: float | Anchor | None = None


class RangeEdges(Enum):
    """How a selector treats the edges of its range: exactly at them, from real samples or by interpolation."""

    ANCHORED = "anchored"
    SMOOTHED = "smoothed"


@dataclass(frozen=True, slots=True)
class Number:
    """A number literal."""

    value: float
    place: Place


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A string literal."""

    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Selector:
    """`name{matchers}`; with `range` (seconds) a range vector. The name is among the matchers."""

    matchers: tuple[Matcher, ...]
    place: Place
    range: float | None = None
    shift: Shift = Shift()
    edges: RangeEdges | None = None


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
    """A function call."""

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
    """Vector matching: by these labels (`on`) or by all others (`ignoring`).

    `group`: the "many" side, "left" or "right"; None is one-to-one. `include`: labels copied from the "one" side.
    `fill_left`, `fill_right`: the value of a sample that is missing on that side; None: no result without it.
    """

    labels: tuple[str, ...] = ()
    on: bool = False
    group: str | None = None
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation; `as_bool`: the `bool` modifier."""

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


def chain(node: Binary) -> list[Binary]:
    """The operations of a chain such as `a or b or c`, the innermost (leftmost) first; `node` is the last.

    A chain grows to the left without being nested in the text, so its length is no depth: who walks trees
    must take a chain at once.
    """
    links = [node]
    while isinstance(links[-1].left, Binary):
        links.append(links[-1].left)
    return links[::-1]


def children(node: Node) -> Iterator[Node]:
    """The direct subexpressions of a node, from left to right; of a chain all operands."""
    if isinstance(node, Binary):
        links = chain(node)
        yield links[0].left
        yield from (link.right for link in links)
        return
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def selectors(node: Node) -> Iterator[Selector]:
    """Every selector of an expression."""
    if isinstance(node, Selector):
        yield node
    for child in children(node):
        yield from selectors(child)


def begin(node: Node) -> Place:
    """The place where the text of an expression begins; the place of an operation is its operator."""
    return chain(node)[0].left.place if isinstance(node, Binary) else node.place
