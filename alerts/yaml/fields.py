"""Read the fields of a YAML mapping and collect every error: unknown keys, wrong types, bad values.

A reader never raises: an unreadable field is None or empty and adds an entry to `errors`.
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
_TYPE_NAMES = {YamlScalar: "a string", YamlSequence: "a list", YamlMapping: "a mapping"}


class FieldReader:
    """Typed access to YAML nodes; `errors` grows while fields are read."""

    def __init__(self) -> None:
        self.errors: list[DocumentError] = []

    def add_error(self, mark: Mark, message: str) -> None:
        """Record an error at a place."""
        self.errors.append(DocumentError(*mark, message))

    def mapping(self, node: Node, what: str, known: tuple[str, ...]) -> Fields:
        """The values of a mapping by key; keys not in `known` are errors. `what` names the mapping in messages."""
        if not isinstance(node, YamlMapping):
            self._add_type_error(node, what, YamlMapping)
            return {}
        for key, _ in node.entries:
            if key.value not in known:
                self.add_error(key.mark, _unknown(key.value, what, known))
        return {key.value: value for key, value in node.entries if key.value in known}

    def items(self, fields: Fields, name: str) -> tuple[Node, ...]:
        """The elements of a list; empty where the field is absent or null."""
        node = fields.get(name)
        if node is None or _is_null(node):
            return ()
        if not isinstance(node, YamlSequence):
            self._add_type_error(node, name, YamlSequence)
            return ()
        return node.items

    def string(self, fields: Fields, name: str) -> YamlScalar | None:
        """A scalar; None where the field is absent or null."""
        node = fields.get(name)
        if node is None or _is_null(node):
            return None
        if not isinstance(node, YamlScalar):
            self._add_type_error(node, name, YamlScalar)
            return None
        return node

    def strings(self, fields: Fields, name: str) -> Iterator[YamlScalar]:
        """The elements of a list of scalars."""
        for node in self.items(fields, name):
            if isinstance(node, YamlScalar):
                yield node
            else:
                self._add_type_error(node, f"an element of {name}", YamlScalar)

    def converted(self, fields: Fields, name: str, convert: Callable[[str], T]) -> T | None:
        """A scalar converted by `convert`; its ValueError is recorded as an error."""
        text = self.string(fields, name)
        if text is None:
            return None
        try:
            return convert(text.value)
        except ValueError as error:
            self.add_error(text.mark, f"{name}: {error}")
            return None

    def seconds(self, fields: Fields, name: str, least: float = 0.0) -> float | None:
        """A duration in seconds, at least `least`."""
        seconds = self.converted(fields, name, parse_duration)
        if seconds is not None and seconds < least:
            self.add_error(fields[name].mark, f"{name}: must be greater than 0")
            return None
        return seconds

    def whole_number(self, fields: Fields, name: str) -> int | None:
        """A non-negative integer."""
        return self.converted(fields, name, _whole)

    def boolean(self, fields: Fields, name: str) -> bool | None:
        """A boolean, by YAML 1.1's spellings."""
        return self.converted(fields, name, _boolean)

    def pairs(self, fields: Fields, name: str) -> Iterator[tuple[YamlScalar, YamlScalar]]:
        """The entries of a mapping of scalars, such as labels. A null value is the empty string."""
        node = fields.get(name)
        if node is None or _is_null(node):
            return
        if not isinstance(node, YamlMapping):
            self._add_type_error(node, name, YamlMapping)
            return
        for key, value in node.entries:
            if isinstance(value, YamlScalar):
                yield key, YamlScalar("", value.mark) if value.is_null else value
            else:
                self._add_type_error(value, key.value, YamlScalar)

    def _add_type_error(self, node: Node, what: str, wanted: type[Node]) -> None:
        self.add_error(node.mark, f"{what}: expected {_TYPE_NAMES[wanted]}, not {_TYPE_NAMES[type(node)]}")


def _is_null(node: Node) -> bool:
    return isinstance(node, YamlScalar) and node.is_null


def _unknown(key: str, what: str, known: tuple[str, ...]) -> str:
    similar = difflib.get_close_matches(key[:60], known, n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else f"; known fields: {', '.join(known)}"
    return f"{what} has no field {key[:60]!r}{hint}"


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text[:40]!r} is not an integer from 0 to 999999999")
    return int(text)


def _boolean(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text in _TRUE
