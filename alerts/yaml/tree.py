"""What a YAML document says: texts, lists and tables, each with its place; and a mistake in one.

A text is never turned into a number or a truth value here: who reads it knows what it wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """A place in a document, both counted from 1."""

    line: int
    column: int


class DocumentError(NamedTuple):
    """One thing wrong with a document, in words for the person who wrote it."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


@dataclass(frozen=True)
class YamlScalar:
    """A scalar. `plain`: written without quotes and not as a block, so that it may mean null or a number.

    `body` is the place of its first character where the lines of `value` are lines of the document.
    """

    value: str
    mark: Mark
    plain: bool = False
    body: Mark | None = None

    @property
    def is_null(self) -> bool:
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")

    def place(self, line: int, column: int) -> Mark:
        """Where in the document the given place of the value stands; where the value begins if not known."""
        if self.body is None:
            return self.mark
        return Mark(self.body.line + line - 1, self.body.column + column - 1)


@dataclass(frozen=True)
class YamlSequence:
    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True)
class YamlMapping:
    entries: tuple[tuple[YamlScalar, Node], ...]
    mark: Mark


Node = YamlScalar | YamlSequence | YamlMapping
