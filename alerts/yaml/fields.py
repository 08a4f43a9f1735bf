"""Reads the fields of a YAML table and collects every mistake: unknown keys, wrong shapes, bad values.

A reader never raises; what it cannot read is None or empty, and said in `errors`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from alerts.durations import parse_duration
from alerts.yaml.tree import DocumentError, Mark, Node, YamlMapping, YamlScalar, YamlSequence

T = TypeVar("T")
Fields = Mapping[str, Node]
_TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE = ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")
_SHAPES = {YamlScalar: "a text", YamlSequence: "a list", YamlMapping: "a table of keys and values"}


class FieldReader:
    """`errors` grows while fields are read."""

    def __init__(self) -> None:
        self.errors: list[DocumentError] = []

    def add_error(self, mark: Mark, message: str) -> None:
        self.errors.append(DocumentError(*mark, message))

    def mapping(self, node: Node, what: str, known: tuple[str, ...]) -> Fields:
        """The values of a table by their keys; those that `what` does not have are mistakes."""
        if not isinstance(node, YamlMapping):
            self._wrong_shape(node, what, YamlMapping)
            return {}
        for key, _ in node.entries:
            if key.value not in known:
                self.add_error(key.mark, _unknown(key.value, what, known))
        return {key.value: value for key, value in node.entries if key.value in known}

    def items(self, fields: Fields, name: str) -> tuple[Node, ...]:
        """The elements of a list; none where the field is absent or empty."""
        node = fields.get(name)
        if node is None or _is_null(node):
            return ()
        if not isinstance(node, YamlSequence):
            self._wrong_shape(node, name, YamlSequence)
            return ()
        return node.items

    def string(self, fields: Fields, name: str) -> YamlScalar | None:
        node = fields.get(name)
        if node is None or _is_null(node):
            return None
        if not isinstance(node, YamlScalar):
            self._wrong_shape(node, name, YamlScalar)
            return None
        return node

    def strings(self, fields: Fields, name: str) -> Iterator[YamlScalar]:
        """The elements of a list of texts."""
        for node in self.items(fields, name):
            if isinstance(node, YamlScalar):
                yield node
            else:
                self._wrong_shape(node, f"an element of {name}", YamlScalar)

    def converted(self, fields: Fields, name: str, convert: Callable[[str], T]) -> T | None:
        """The text of a field through `convert`, whose ValueError becomes a mistake."""
        text = self.string(fields, name)
        if text is None:
            return None
        try:
            return convert(text.value)
        except ValueError as error:
            self.add_error(text.mark, f"{name}: {error}")
            return None

    def seconds(self, fields: Fields, name: str, least: float = 0.0) -> float | None:
        """A duration, of at least `least` seconds."""
        seconds = self.converted(fields, name, parse_duration)
        if seconds is not None and seconds < least:
            self.add_error(fields[name].mark, f"{name}: must be longer than 0")
            return None
        return seconds

    def whole_number(self, fields: Fields, name: str) -> int | None:
        """A whole number that is not negative."""
        return self.converted(fields, name, _whole)

    def boolean(self, fields: Fields, name: str) -> bool | None:
        return self.converted(fields, name, _boolean)

    def pairs(self, fields: Fields, name: str) -> Iterator[tuple[YamlScalar, YamlScalar]]:
        """The keys and values of a table of texts, such as labels. A value of null is the empty text."""
        node = fields.get(name)
        if node is None or _is_null(node):
            return
        if not isinstance(node, YamlMapping):
            self._wrong_shape(node, name, YamlMapping)
            return
        for key, value in node.entries:
            if isinstance(value, YamlScalar):
                yield key, YamlScalar("", value.mark) if value.is_null else value
            else:
                self._wrong_shape(value, key.value, YamlScalar)

    def _wrong_shape(self, node: Node, what: str, wanted: type[Node]) -> None:
        self.add_error(node.mark, f"{what}: {_SHAPES[wanted]} must stand here, not {_SHAPES[type(node)]}")


def _is_null(node: Node) -> bool:
    return isinstance(node, YamlScalar) and node.is_null


def _unknown(key: str, what: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key[:60], known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(known)}"
    return f"{what} has no field {key[:60]!r}{hint}"


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def _boolean(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text in _TRUE
