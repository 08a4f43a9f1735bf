"""Description of configuration fields: type, default, and the field of `global` that they inherit.

A `Schema` is data; `alerts.notify.configuration.settings` reads a YAML mapping by it. Secrets stay apart from texts, so
that they are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class FieldType(Enum):
    """What a field holds. Of TEMPLATE and ANYTHING, texts are templates."""

    TEXT = "text"
    TEMPLATE = "template"
    SECRET = "secret"
    FILE = "file"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DURATION = "duration"
    TEXTS = "texts"
    TEMPLATES = "templates"
    PAIRS = "pairs"
    TEMPLATE_PAIRS = "template pairs"
    ANYTHING = "anything"
    MAPPING = "mapping"
    MAPPINGS = "mappings"
    KEYED = "keyed mappings"


#: Fields whose texts are filled in for each message.
TEMPLATED = frozenset({
    FieldType.TEMPLATE, FieldType.TEMPLATES, FieldType.TEMPLATE_PAIRS, FieldType.ANYTHING, FieldType.MAPPINGS,
})  # fmt: skip


#: Why a text is invalid; None where it is valid.
Problem = Callable[[str], str | None]


@dataclass(frozen=True)
class SettingField:
    """A field. `inherits`: a field of `global`, except where the field `unless` is given."""

    type: FieldType
    default: Any = None
    required: bool = False
    inherits: str = ""
    unless: str = ""
    fields: Schema | None = None
    problem: Problem | None = None


Schema = Mapping[str, SettingField]
Settings = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Secret:
    """A secret text, or the file that holds it; neither is shown."""

    text: str = ""
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.file)

    def __repr__(self) -> str:
        return "Secret(…)" if self else "Secret()"


class FilePath(str):
    """The path of a file that a setting names."""

    __slots__ = ()


def text(default: str = "", **given: Any) -> SettingField:
    """A text."""
    return SettingField(FieldType.TEXT, default, **given)


def template(default: str = "", **given: Any) -> SettingField:
    """A text that is a template."""
    return SettingField(FieldType.TEMPLATE, default, **given)


def secret(**given: Any) -> SettingField:
    """A secret; the field NAME_file names a file that holds it."""
    return SettingField(FieldType.SECRET, Secret(), **given)


def file() -> SettingField:
    """The path of a file."""
    return SettingField(FieldType.FILE, FilePath(""))


def boolean(default: bool | None = False, **given: Any) -> SettingField:
    """A truth value."""
    return SettingField(FieldType.BOOLEAN, default, **given)


def integer(default: int | None = 0, **given: Any) -> SettingField:
    """An integer; may be negative."""
    return SettingField(FieldType.INTEGER, default, **given)


def duration(default: float | None = None) -> SettingField:
    """A duration, in seconds."""
    return SettingField(FieldType.DURATION, default)


def texts(*default: str) -> SettingField:
    """A list of texts."""
    return SettingField(FieldType.TEXTS, default)


def templates() -> SettingField:
    """A list of templates."""
    return SettingField(FieldType.TEMPLATES, ())


def pairs() -> SettingField:
    """A mapping of texts."""
    return SettingField(FieldType.PAIRS, {})


def template_pairs(default: Mapping[str, str] | None = None) -> SettingField:
    """A mapping of templates."""
    return SettingField(FieldType.TEMPLATE_PAIRS, default or {})


def anything(default: Any = None) -> SettingField:
    """Any YAML value; its texts are templates."""
    return SettingField(FieldType.ANYTHING, {} if default is None else default)


def mapping(fields: Schema, **given: Any) -> SettingField:
    """A mapping with fields of its own; None where it is absent."""
    return SettingField(FieldType.MAPPING, None, fields=fields, **given)


def mappings(fields: Schema) -> SettingField:
    """A list of mappings with fields of their own."""
    return SettingField(FieldType.MAPPINGS, (), fields=fields)


def keyed(fields: Schema) -> SettingField:
    """A mapping whose values are mappings with fields of their own."""
    return SettingField(FieldType.KEYED, {}, fields=fields)


def required(field: SettingField) -> SettingField:
    """The field, without which a mapping is incomplete."""
    return replace(field, required=True)
