"""Expand templates in labels and annotations: `{{ $labels.query }} is {{ $value | humanizeDuration }} late`.

Go templates as Prometheus uses them (`alerts.templates.syntax`). Expansion never raises: an error becomes part of
the text, since the alert must be sent anyway. Pure; bounded in steps and length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from alerts.errors import AlertsError, TemplateError
from alerts.matching.labels import Labels
from alerts.templates.functions import FUNCTIONS, go_format, is_true
from alerts.templates.nodes import (
    Branch,
    Inclusion,
    Jump,
    Literal,
    Operand,
    ParsedTemplate,
    Path,
    Piece,
    Pipeline,
    TemplateCall,
    commands,
    inclusions,
)
from alerts.templates.samples import BOUND, Query, rule_functions
from alerts.templates.syntax import parse
from alerts.templates.values import method
from alerts.yaml.tree import DocumentError

MAX_STEPS = 10_000
MAX_OUTPUT = 65_536
#: Characters of a text that a function returns; characters and elements of all that it is given.
MAX_TEXT = 1_048_576
MAX_TAKEN = 2 * MAX_TEXT
ELEMENT_CHARACTERS = 64  # for which an element counts
MAX_ELEMENTS = 100_000
#: Characters and elements that all functions of one evaluation may take and return.
MAX_CHARACTERS = 32 * MAX_TEXT
#: Functions whose value is a part of what they are given, or a number: what they are given is not measured.
LIGHT = frozenset(
    ("len", "index", "slice", "first", "and", "or", "not", "value", "label", "strvalue", "sortByLabel")
)
#: Templates that include each other.
MAX_INCLUSIONS = 40
Functions = Mapping[str, Callable[..., Any]]
Definitions = Mapping[str, tuple[Piece, ...]]

_NAMES = frozenset(FUNCTIONS) | BOUND
_VARIABLES = ("labels", "value", "externalLabels", "externalURL")


def template_errors(text: str) -> tuple[DocumentError, ...]:
    """Syntax errors of a template, with line and column; empty if it is valid."""
    try:
        parsed = _parsed(text)
    except TemplateError as error:
        return (DocumentError(error.line, error.column, error.message),)
    return missing_templates(parsed, parsed.definitions)


def missing_templates(parsed: ParsedTemplate, known: Iterable[str]) -> tuple[DocumentError, ...]:
    """An error for each template that a text includes and nobody defines."""
    bodies = (parsed.body, *parsed.definitions.values())
    included = dict.fromkeys(name for body in bodies for name in inclusions(body))
    return tuple(DocumentError(1, 1, f"there is no template {n!r}") for n in included if n not in set(known))


def queries(text: str) -> tuple[str, ...]:
    """The expressions that a valid template passes to `query` as literals."""
    parsed = _parsed(text)
    bodies = (parsed.body, *parsed.definitions.values())
    return tuple(
        first.value
        for body in bodies
        for command in commands(body)
        if command[0] == TemplateCall("query") and len(command) > 1
        if isinstance(first := command[1], Literal) and isinstance(first.value, str)
    )


def expand(
    text: str,
    labels: Labels,
    value: float,
    now: float = 0.0,
    external_labels: Labels | None = None,
    external_url: str = "",
    query: Query | None = None,
) -> str:
    """Expand a template; an error gives `<error expanding template: …>`, as in Prometheus.

    `now`: the time of the evaluation (Unix seconds). `query` evaluates an expression at that time.
    """
    if "{{" not in text:
        return text
    known = {
        "Labels": labels,
        "Value": float(value),
        "ExternalLabels": external_labels or {},
        "ExternalURL": external_url,
    }
    variables = {
        "labels": known["Labels"],
        "value": known["Value"],
        "externalLabels": known["ExternalLabels"],
        "externalURL": known["ExternalURL"],
    }
    try:
        parsed = _parsed(text)
        functions = {**FUNCTIONS, **rule_functions(query, now, external_url)}
        return TemplateEvaluation(functions, parsed.definitions).text(parsed.body, known, variables)
    except (AlertsError, ValueError, TypeError, ArithmeticError) as error:
        return f"<error expanding template: {str(error)[:200]}>"


@lru_cache(maxsize=2048)
def _parsed(text: str) -> ParsedTemplate:
    return parse(text, _NAMES, _VARIABLES)


class _Jumped(Exception):
    """`break` (else `continue`) of the innermost range."""

    def __init__(self, breaks: bool):
        super().__init__()
        self.breaks = breaks


class TemplateEvaluation:
    """One evaluation of a template, bounded in steps and output. Raises AlertsError, ValueError or TypeError.

    `escape` is applied to the value of each action, not to the template's own text.
    """

    def __init__(
        self,
        functions: Functions,
        definitions: Definitions,
        escape: Callable[[Any], str] = go_format,
        max_steps: int = MAX_STEPS,
        max_output: int = MAX_OUTPUT,
    ):
        self._functions, self._definitions, self._escape = functions, definitions, escape
        self._max_steps, self._max_output = max_steps, max_output
        self._root: Any = None
        self._scopes: list[dict[str, Any]] = []
        self._steps = self._inclusions = self._characters = 0

    def text(self, pieces: tuple[Piece, ...], root: Any, variables: Mapping[str, Any] | None = None) -> str:
        """The text of pieces with `root` as data."""
        self._root = root
        self._scopes = [{"": root, **(variables or {})}]
        text, length = [], 0
        for part in self._pieces(pieces, root):
            length += len(part)
            if length > self._max_output:
                raise ValueError(f"the text has more than {self._max_output} characters")
            text.append(part)
        return "".join(text)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._max_steps:
            raise ValueError(f"it takes more than {self._max_steps} steps")

    def _pieces(self, pieces: tuple[Piece, ...], dot: Any) -> Iterator[str]:
        for piece in pieces:
            self._step()
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, Branch):
                yield from self._branch(piece, dot)
            elif isinstance(piece, Inclusion):
                yield from self._inclusion(piece, dot)
            elif isinstance(piece, Jump):
                raise _Jumped(breaks=piece.keyword == "break")
            else:
                value = self._pipeline(piece, dot)
                yield "" if piece.sets else self._escape(value)

    def _inclusion(self, piece: Inclusion, dot: Any) -> Iterator[str]:
        """The text of an included template, which sees only the data given to it."""
        if piece.name not in self._definitions:
            raise ValueError(f"there is no template {piece.name!r}")
        self._inclusions += 1
        if self._inclusions > MAX_INCLUSIONS:
            raise ValueError(f"templates include each other more than {MAX_INCLUSIONS} times")
        data = self._pipeline(piece.pipeline, dot) if piece.pipeline else None
        outer = self._scopes, self._root
        self._scopes, self._root = [{"": data}], data
        yield from self._pieces(self._definitions[piece.name], data)
        self._scopes, self._root = outer
        self._inclusions -= 1

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
        elements = _elements(value)
        for key, element in elements:
            self._step()
            names = branch.pipeline.sets
            self._scopes[-1].update(zip(names, (key, element)[-len(names) :], strict=True) if names else ())
            depth = len(self._scopes)
            try:
                yield from self._pieces(branch.body, element)
            except _Jumped as jumped:
                del self._scopes[depth:]
                if jumped.breaks:
                    break
        if not elements:
            yield from self._pieces(branch.otherwise, dot)

    def _pipeline(self, pipeline: Pipeline, dot: Any, sets: bool = True) -> Any:
        value = self._commands(pipeline, dot)
        if sets and pipeline.sets:
            self._scope(pipeline)[pipeline.sets[0]] = value
        return value

    def _scope(self, pipeline: Pipeline) -> dict[str, Any]:
        """The scope of the variable that a pipeline sets."""
        if pipeline.declares:
            return self._scopes[-1]
        return next(scope for scope in reversed(self._scopes) if pipeline.sets[0] in scope)

    def _commands(self, pipeline: Pipeline, dot: Any) -> Any:
        value: tuple[Any, ...] = ()
        for command in pipeline.commands:
            self._step()
            value = (self._command(command, dot, value),)
        return value[0]

    def _command(self, command: tuple[Operand, ...], dot: Any, piped: tuple[Any, ...]) -> Any:
        first, *rest = command
        if isinstance(first, Path):
            arguments = [*(self._operand(operand, dot) for operand in rest), *piped]
            return self._path(first, dot, arguments)
        if not isinstance(first, TemplateCall):
            return self._operand(first, dot)
        arguments = [self._operand(operand, dot) for operand in rest]
        return self._called(first.name, self._functions[first.name], (*arguments, *piped))

    def _operand(self, operand: Operand, dot: Any) -> Any:
        match operand:
            case Literal(value):
                return value
            case TemplateCall():
                return self._command((operand,), dot, ())
            case Path():
                return self._path(operand, dot, ())

    def _path(self, path: Path, dot: Any, arguments: Sequence[Any]) -> Any:
        """A variable or field; `arguments` are those of its last part, a method."""
        if path.root is None:
            value = dot
        elif isinstance(path.root, str):
            found = path.root
            value = next((scope[found] for scope in reversed(self._scopes) if found in scope), None)
        else:
            value = self._commands(path.root, dot)
        for number, name in enumerate(path.fields, start=1):
            is_last = number == len(path.fields)
            value = self._field(value, name, arguments if is_last else ())
        return value

    def _field(self, value: Any, name: str, arguments: Sequence[Any]) -> Any:
        if (called := method(value, name)) is not None:
            return self._called(name, called, arguments)
        if arguments:
            raise ValueError(f"{name} is not a method, so it takes no arguments")
        if not isinstance(value, Mapping):
            raise ValueError(f"{go_format(value)[:40]} has no field {name}")
        if value is self._root and name not in value and type(value) is dict:
            raise ValueError(f"there is no .{name}")
        return value.get(name, "")

    def _called(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """The value of a function or method, bounded before and after: a text can double with each call."""
        if name not in LIGHT:
            self._charge(weight(arguments), MAX_TAKEN)
        try:
            value = function(*arguments)
        except (TypeError, IndexError, AttributeError, KeyError) as error:
            raise ValueError(f"{name} cannot take these arguments ({error})") from None
        if isinstance(value, str):
            self._charge(len(value), MAX_TEXT)
        elif isinstance(value, list | tuple) and len(value) > MAX_ELEMENTS:
            raise ValueError("a value is too long")
        return value

    def _charge(self, characters: int, limit: int) -> None:
        self._characters += characters
        if characters > limit or self._characters > MAX_CHARACTERS:
            raise ValueError("a value is too long")


def weight(values: Iterable[Any]) -> int:
    """Characters of values, each as often as it would be printed; counting ends beyond MAX_TAKEN."""
    total, waiting = 0, list(values)
    while waiting and total <= MAX_TAKEN:
        value = waiting.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, Mapping | list | tuple):
            total += ELEMENT_CHARACTERS * len(value)
            waiting += (*value.keys(), *value.values()) if isinstance(value, Mapping) else value
    return total


def _elements(value: Any) -> list[tuple[Any, Any]]:
    """Keys and elements that `range` visits: of mappings in the order of keys, of lists and numbers with an index."""
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return list(enumerate(range(min(value, MAX_STEPS))))
    return list(enumerate(value)) if isinstance(value, list | tuple) else []
