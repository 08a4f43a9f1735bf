"""YAML nodes with their places (scalars, sequences, mappings), and document errors.

Scalars are strings; the reader of a field converts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """A place in a document; line and column count from 1."""

    line: int
    column: int


class DocumentError(NamedTuple):
    """An error in a document, as a message for its author."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


@dataclass(frozen=True)
class YamlScalar:
    """A scalar. `plain`: neither quoted nor a block, so it may mean null or a number.

    `body` is the place of its first character where the lines of `value` are lines of the document.
    """

    value: str
    mark: Mark
    plain: bool = False
    body: Mark | None = None

    @property
    def is_null(self) -> bool:
        """Whether YAML reads the scalar as null."""
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")

    def place(self, line: int, column: int) -> Mark:
        """The place in the document of a place in the value; the value's start if unknown."""
        if self.body is None:
            return self.mark
        return Mark(self.body.line + line - 1, self.body.column + column - 1)


@dataclass(frozen=True)
class YamlSequence:
    """A sequence of nodes."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True)
class YamlMapping:
    """A mapping as (key, value) pairs in document order."""

    entries: tuple[tuple[YamlScalar, Node], ...]
    mark: Mark


Node = YamlScalar | YamlSequence | YamlMapping
