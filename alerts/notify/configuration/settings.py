"""Read a YAML mapping by its schema into plain values, with every error and its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from alerts.notify.configuration.schema import (
    FieldType,
    FilePath,
    Problem,
    Schema,
    Secret,
    SettingField,
    Settings,
)
from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.tree import Node, YamlMapping, YamlScalar, YamlSequence

_INTEGER = re.compile(r"[-+]?\d{1,18}")
#: Plain scalars that are numbers and are written back unchanged; others, such as 0644, stay texts.
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}|-?(?:0|[1-9]\d{0,11})\.\d{0,6}[1-9]")


class SettingsReader(FieldReader):
    """Reads mappings by schema; `errors` grows."""

    def settings(
        self, node: Node, what: str, schema: Schema, inherited: Settings | None = None
    ) -> dict[str, Any]:
        """The values of a mapping's fields; fields that are not given have their default or the inherited value."""
        if isinstance(node, YamlScalar) and node.is_null:
            node = YamlMapping((), node.mark)
        fields = self.mapping(node, what, tuple(_names(schema)))
        return {name: self._setting(node, fields, name, field, inherited) for name, field in schema.items()}

    def _setting(
        self, node: Node, fields: Fields, name: str, field: SettingField, inherited: Settings | None
    ) -> Any:
        value = self._value(fields, name, field)
        replaced = field.unless in fields or f"{field.unless}_file" in fields
        if value is None and inherited is not None and field.inherits and not replaced:
            value = inherited.get(field.inherits)
        if value is None:
            value = field.default
        if field.required and isinstance(node, YamlMapping) and value in (None, "", Secret(), FilePath("")):
            origin = f", neither here nor in global ({field.inherits})" if field.inherits else ""
            self.add_error(node.mark, f"{name} is not set{origin}")
        return value

    def _value(self, fields: Fields, name: str, field: SettingField) -> Any:
        """The value of a field; None where it is absent or invalid."""
        match field.type:
            case FieldType.SECRET:
                return self._secret(fields, name, field)
            case FieldType.FILE:
                found = self._text(fields, name, field)
                return None if found is None else FilePath(found)
            case FieldType.BOOLEAN:
                return self.boolean(fields, name)
            case FieldType.INTEGER:
                return self.converted(fields, name, partial(_integer, problem=field.problem))
            case FieldType.DURATION:
                return self.seconds(fields, name)
            case FieldType.TEXT | FieldType.TEMPLATE:
                return self._text(fields, name, field)
        return None if name not in fields else self._collection(fields, name, field)

    def _collection(self, fields: Fields, name: str, field: SettingField) -> Any:
        schema = field.fields or {}
        match field.type:
            case FieldType.TEXTS | FieldType.TEMPLATES:
                return tuple(item.value for item in self.strings(fields, name))
            case FieldType.PAIRS | FieldType.TEMPLATE_PAIRS:
                return {key.value: value.value for key, value in self.pairs(fields, name)}
            case FieldType.MAPPING:
                return self.settings(fields[name], name, schema)
            case FieldType.MAPPINGS:
                what = f"an element of {name}"
                return tuple(self.settings(item, what, schema) for item in self.items(fields, name))
            case FieldType.KEYED if isinstance(fields[name], YamlMapping):
                entries = self._entries(fields[name])
                return {key.value: self.settings(node, key.value, schema) for key, node in entries}
            case FieldType.KEYED:
                self.add_error(fields[name].mark, f"{name}: expected a mapping")
                return None
        return plain(fields[name])

    @staticmethod
    def _entries(node: Node) -> tuple[tuple[YamlScalar, Node], ...]:
        return node.entries if isinstance(node, YamlMapping) else ()

    def _text(self, fields: Fields, name: str, field: SettingField) -> str | None:
        found = self.string(fields, name)
        if found is None:
            return None
        if found.value and field.problem is not None and (problem := field.problem(found.value)):
            self.add_error(found.mark, f"{name}: {problem}")
        return found.value

    def _secret(self, fields: Fields, name: str, field: SettingField) -> Secret | None:
        text, file = self._text(fields, name, field), self.string(fields, f"{name}_file")
        if text and file is not None and file.value:
            self.add_error(file.mark, f"at most one of {name} and {name}_file may be set")
        if text is None and file is None:
            return None
        return Secret(text or "", file.value if file else "")


def _names(schema: Schema) -> Iterator[str]:
    for name, field in schema.items():
        yield name
        if field.type is FieldType.SECRET:
            yield f"{name}_file"


def _integer(text: str, problem: Problem | None) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not an integer")
    if problem is not None and (reason := problem(text)):
        raise ValueError(reason)
    return int(text)


def plain(node: Node) -> Any:
    """A YAML value as Python value; plain scalars have the type that YAML gives them."""
    if isinstance(node, YamlMapping):
        return {key.value: plain(value) for key, value in node.entries}
    if isinstance(node, YamlSequence):
        return [plain(item) for item in node.items]
    return _typed(node) if node.plain else node.value


def _typed(node: YamlScalar) -> Any:
    if node.is_null:
        return None
    if node.value in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return node.value.lower() == "true"
    if not _NUMBER.fullmatch(node.value):
        return node.value
    return float(node.value) if "." in node.value else int(node.value)


def secrets_and_files(value: Any) -> Iterator[str]:
    """Paths of the files that settings name, including those with secrets."""
    if isinstance(value, Secret):
        yield from filter(None, [value.file])
    elif isinstance(value, FilePath):
        yield from filter(None, [value])
    elif isinstance(value, Mapping):
        for element in value.values():
            yield from secrets_and_files(element)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from secrets_and_files(element)
