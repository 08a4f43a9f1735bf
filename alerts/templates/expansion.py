"""Expand templates in labels and annotations: `{{ $labels.query }} is {{ $value | humanizeDuration }} late`.

Go templates as Prometheus uses them (`alerts.templates.syntax`). Expansion never raises: an error becomes part of
the text, since the alert must be sent anyway. Pure; bounded in steps and length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from alerts.errors import AlertsError, TemplateError
from alerts.matching.labels import Labels
from alerts.templates.functions import FUNCTIONS, UNSUPPORTED, go_format, is_true
from alerts.templates.syntax import Branch, Literal, Operand, Path, Piece, Pipeline, TemplateCall, parse
from alerts.yaml.tree import DocumentError

MAX_STEPS = 10_000
MAX_OUTPUT = 65_536

_NAMES = frozenset(FUNCTIONS) | UNSUPPORTED
_VARIABLES = ("labels", "value", "externalLabels", "externalURL")


def template_errors(text: str) -> tuple[DocumentError, ...]:
    """Syntax errors of a template, with line and column; empty if it is valid."""
    try:
        _parsed(text)
    except TemplateError as error:
        return (DocumentError(error.line, error.column, error.message),)
    return ()


def expand(
    text: str,
    labels: Labels,
    value: float,
    now: float = 0.0,
    external_labels: Labels | None = None,
    external_url: str = "",
) -> str:
    """Expand a template; an error gives `<error expanding template: …>`, as in Prometheus.

    `now` is reserved for functions of time; none uses it yet.
    """
    if "{{" not in text:
        return text
    known = {
        "Labels": labels,
        "Value": float(value),
        "ExternalLabels": external_labels or {},
        "ExternalURL": external_url,
    }
    try:
        return _Evaluation(known).text(_parsed(text))
    except (AlertsError, ValueError, TypeError, ArithmeticError) as error:
        return f"<error expanding template: {str(error)[:200]}>"


@lru_cache(maxsize=2048)
def _parsed(text: str) -> tuple[Piece, ...]:
    return parse(text, _NAMES, _VARIABLES)


class _Unsupported(Exception):
    """An unsupported function: its action renders as the empty string."""


class _Evaluation:
    def __init__(self, known: Mapping[str, Any]):
        self._root = known
        self._scopes: list[dict[str, Any]] = [
            {
                "": known,
                "labels": known["Labels"],
                "value": known["Value"],
                "externalLabels": known["ExternalLabels"],
                "externalURL": known["ExternalURL"],
            }
        ]
        self._steps = 0

    def text(self, pieces: tuple[Piece, ...]) -> str:
        text, length = [], 0
        for part in self._pieces(pieces, self._root):
            length += len(part)
            if length > MAX_OUTPUT:
                raise ValueError(f"the text has more than {MAX_OUTPUT} characters")
            text.append(part)
        return "".join(text)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ValueError(f"it takes more than {MAX_STEPS} steps")

    def _pieces(self, pieces: tuple[Piece, ...], dot: Any) -> Iterator[str]:
        for piece in pieces:
            self._step()
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, Branch):
                yield from self._branch(piece, dot)
            else:
                value = self._pipeline(piece, dot)
                yield "" if piece.sets else go_format(value)

    def _branch(self, branch: Branch, dot: Any) -> Iterator[str]:
        self._scopes.append({})
        value = self._pipeline(branch.pipeline, dot, sets=branch.keyword != "range")
        if branch.keyword == "range":
            yield from self._range(branch, value, dot)
        elif is_true(value):
            yield from self._pieces(branch.body, value if branch.keyword == "with" else dot)
        else:
            yield from self._pieces(branch.otherwise, dot)
        self._scopes.pop()

    def _range(self, branch: Branch, value: Any, dot: Any) -> Iterator[str]:
        elements = sorted(value.items()) if isinstance(value, Mapping) else []
        for key, element in elements:
            names = branch.pipeline.sets
            self._scopes[-1].update(zip(names, (key, element)[-len(names) :], strict=True) if names else ())
            yield from self._pieces(branch.body, element)
        if not elements:
            yield from self._pieces(branch.otherwise, dot)

    def _pipeline(self, pipeline: Pipeline, dot: Any, sets: bool = True) -> Any:
        try:
            value = self._commands(pipeline, dot)
        except _Unsupported:
            value = ""
        if sets and pipeline.sets:
            self._scopes[-1][pipeline.sets[0]] = value
        return value

    def _commands(self, pipeline: Pipeline, dot: Any) -> Any:
        value: tuple[Any, ...] = ()
        for command in pipeline.commands:
            self._step()
            value = (self._command(command, dot, value),)
        return value[0]

    def _command(self, command: tuple[Operand, ...], dot: Any, piped: tuple[Any, ...]) -> Any:
        first, *rest = command
        if not isinstance(first, TemplateCall):
            return self._operand(first, dot)
        if first.name in UNSUPPORTED:
            raise _Unsupported
        arguments = [self._operand(operand, dot) for operand in rest]
        try:
            return FUNCTIONS[first.name](*arguments, *piped)
        except (TypeError, IndexError) as error:
            raise ValueError(f"{first.name} cannot take these arguments ({error})") from None

    def _operand(self, operand: Operand, dot: Any) -> Any:
        match operand:
            case Literal(value):
                return value
            case TemplateCall():
                return self._command((operand,), dot, ())
            case Path(root, fields):
                return self._path(root, fields, dot)

    def _path(self, root: str | Pipeline | None, fields: tuple[str, ...], dot: Any) -> Any:
        if root is None:
            value = dot
        elif isinstance(root, str):
            value = next((scope[root] for scope in reversed(self._scopes) if root in scope), None)
        else:
            value = self._commands(root, dot)
        for name in fields:
            if not isinstance(value, Mapping):
                raise ValueError(f"{go_format(value)[:40]} has no field {name}")
            if value is self._root and name not in value:
                raise ValueError(f"there is no .{name}")
            value = value.get(name, "")
        return value
