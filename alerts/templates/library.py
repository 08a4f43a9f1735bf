"""Templates of messages: the shipped definitions, those of the configuration, and the fields of receivers.

Go templates as Alertmanager uses them. A `TemplateLibrary` is built whenever the configuration is loaded; it renders
a text with a message's data (`alerts.notify.template_data`). Pure.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, unquote

from alerts.errors import AlertsError, TemplateError
from alerts.templates.expansion import MAX_TEXT, Functions, TemplateEvaluation, missing_templates
from alerts.templates.functions import FUNCTIONS, go_format
from alerts.templates.nodes import ParsedTemplate, Piece
from alerts.templates.syntax import parse
from alerts.templates.times import format_time, in_zone
from alerts.templates.values import SafeText
from alerts.yaml.tree import DocumentError

MAX_STEPS = 500_000
MAX_OUTPUT = 1 << 20


def _strings(*texts: Any) -> list[str]:
    return [str(text) for text in texts]


def _joined(separator: Any, texts: Any) -> str:
    if len(str(separator)) * len(texts) > MAX_TEXT:
        raise ValueError("a value is too long")
    return str(separator).join(map(str, texts))


def _dictionary(*entries: Any) -> dict[str, Any]:
    return {str(name): value for name, value in zip(entries[::2], entries[1::2], strict=True)}


MESSAGE_FUNCTIONS: Functions = {
    **FUNCTIONS,
    "trimSpace": lambda text: str(text).strip(),
    "join": _joined,
    "stringSlice": _strings,
    "list": lambda *elements: list(elements),
    "append": lambda elements, *more: [*elements, *more],
    "dict": _dictionary,
    "safeHtml": SafeText,
    "safeUrl": SafeText,
    "html": lambda text: SafeText(html.escape(go_format(text))),
    "urlUnescape": lambda text: unquote(str(text)),
    "urlPathEscape": lambda text: quote(str(text), safe=""),
    "date": lambda layout, moment: format_time(moment, str(layout)),
    "tz": lambda zone, moment: in_zone(str(zone), moment),
    "since": lambda moment: datetime.now(UTC) - moment,
    "now": lambda: datetime.now(UTC),
    "toJson": lambda value: json.dumps(value, ensure_ascii=False, default=go_format),
}
_NAMES = frozenset(MESSAGE_FUNCTIONS)


class TemplateLibrary:
    """Named templates. `errors` states what is wrong with a text; `render` fills it in."""

    def __init__(self, definitions: Mapping[str, tuple[Piece, ...]]):
        self._definitions = definitions

    def errors(self, text: str) -> tuple[DocumentError, ...]:
        """Errors of a text of the configuration: its syntax, and templates that it includes but nobody defines."""
        try:
            parsed = _parsed(text)
        except TemplateError as error:
            return (DocumentError(error.line, error.column, error.message),)
        return missing_templates(parsed, {**self._definitions, **parsed.definitions})

    def render(self, text: str, data: Mapping[str, Any], as_html: bool = False) -> str:
        """Fill in a text; an error gives `<error expanding template: …>`, since the message must be sent anyway.

        `as_html` escapes the values.
        """
        if "{{" not in text:
            return text
        try:
            parsed = _parsed(text)
            definitions = {**self._definitions, **parsed.definitions}
            escape = _escaped if as_html else go_format
            evaluation = TemplateEvaluation(MESSAGE_FUNCTIONS, definitions, escape, MAX_STEPS, MAX_OUTPUT)
            return evaluation.text(parsed.body, data)
        except (AlertsError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            return f"<error expanding template: {str(error)[:200]}>"


def library(texts: Iterable[tuple[str, str]] = ()) -> TemplateLibrary:
    """The shipped templates, and those that files define; a later definition replaces an earlier one.

    `texts`: name and content of each file. Raises ValueError with every error, one per line.
    """
    definitions, errors = dict(_shipped().definitions), []
    parsed = {}
    for name, text in texts:
        try:
            parsed[name] = _parsed(text)
        except TemplateError as error:
            errors.append(f"{name}:{error.line}:{error.column}: {error.message}")
            continue
        definitions |= parsed[name].definitions
    for name, template in parsed.items():
        errors += [f"{name}: {missing.message}" for missing in missing_templates(template, definitions)]
    if errors:
        raise ValueError("\n".join(errors))
    return TemplateLibrary(definitions)


@lru_cache(maxsize=2048)
def _parsed(text: str) -> ParsedTemplate:
    return parse(text, _NAMES, ())


@lru_cache(maxsize=1)
def _shipped() -> ParsedTemplate:
    return _parsed(files("alerts.templates").joinpath("messages.tmpl").read_text(encoding="utf-8"))


def _escaped(value: Any) -> str:
    return str(value) if isinstance(value, SafeText) else html.escape(go_format(value))
