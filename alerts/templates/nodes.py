"""Syntax tree of a template: literals, paths, calls, pipelines, branches, inclusions, and the templates it defines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: str | float | int | bool | None


@dataclass(frozen=True)
class Path:
    """`.a.b` (root None), `$x.a` (root `x`; `$` alone: ""), or fields of something in parentheses."""

    root: str | Pipeline | None
    fields: tuple[str, ...]


@dataclass(frozen=True)
class TemplateCall:
    """A call of the function `name`."""

    name: str


Operand = Literal | Path | TemplateCall


@dataclass(frozen=True)
class Pipeline:
    """Commands; each gets the previous result as its last argument.

    `sets`: the variables that get the result; `declares`: new ones (`:=`), not existing ones (`=`).
    """

    commands: tuple[tuple[Operand, ...], ...]
    sets: tuple[str, ...] = ()
    declares: bool = True


@dataclass(frozen=True)
class Branch:
    """`if`, `with` or `range`. `otherwise`: the body after `else`."""

    keyword: str
    pipeline: Pipeline
    body: tuple[Piece, ...]
    otherwise: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Inclusion:
    """`template "name" pipeline` or `block`. Without a pipeline the included template has no data."""

    name: str
    pipeline: Pipeline | None


@dataclass(frozen=True)
class Jump:
    """`break` or `continue` of the innermost `range`."""

    keyword: str


Piece = str | Pipeline | Branch | Inclusion | Jump


@dataclass(frozen=True)
class ParsedTemplate:
    """A text's own pieces, and the templates that it defines by name (`define`, `block`)."""

    body: tuple[Piece, ...]
    definitions: Mapping[str, tuple[Piece, ...]] = field(default_factory=dict)


def inclusions(pieces: tuple[Piece, ...]) -> Iterator[str]:
    """Names of the templates that pieces include."""
    for piece in pieces:
        if isinstance(piece, Inclusion):
            yield piece.name
        elif isinstance(piece, Branch):
            yield from inclusions((*piece.body, *piece.otherwise))


def commands(pieces: tuple[Piece, ...]) -> Iterator[tuple[Operand, ...]]:
    """Every command of pieces, those in parentheses too."""
    for piece in pieces:
        if isinstance(piece, Branch):
            yield from commands((piece.pipeline, *piece.body, *piece.otherwise))
        elif isinstance(piece, Inclusion) and piece.pipeline:
            yield from commands((piece.pipeline,))
        elif isinstance(piece, Pipeline):
            for command in piece.commands:
                yield command
                roots = (operand.root for operand in command if isinstance(operand, Path))
                yield from commands(tuple(root for root in roots if isinstance(root, Pipeline)))
