"""Parse one YAML document into a tree, from PyYAML's event stream.

Rejects, each with its place: anchors and aliases (a few bytes expand to gigabytes), tags, several documents,
duplicate keys, and keys that are not scalars. Size and depth are bounded. Scalars stay strings: the reader of a
field converts them.
"""

from __future__ import annotations

import re

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from alerts.yaml.tree import DocumentError, Mark, Node, YamlMapping, YamlScalar, YamlSequence

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
#: Line breaks as PyYAML counts them.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class _Unreadable(Exception):
    """Parsing cannot continue."""

    def __init__(self, mark: Mark, message: str):
        super().__init__(message)
        self.error = DocumentError(*mark, message)


def parse(text: str) -> tuple[Node | None, tuple[DocumentError, ...]]:
    """Parse a document: its tree (None: empty or unreadable) and all errors."""
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        return None, (DocumentError(1, 1, f"the document has {size} bytes, the limit is {MAX_BYTES}"),)
    reader = _Reader(text.removeprefix("\ufeff"))
    try:
        tree = reader.document()
    except _Unreadable as unreadable:
        return None, (*reader.errors, unreadable.error)
    except yaml.YAMLError as error:
        return None, (*reader.errors, _document_error(error))
    return tree, tuple(reader.errors)


def _document_error(error: yaml.YAMLError) -> DocumentError:
    """PyYAML's error with its place; for an unclosed construct the place of its start."""
    context, problem = getattr(error, "context", None), getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if "stream end" in str(problem) or "end of stream" in str(problem):
        mark = getattr(error, "context_mark", None) or mark
    message = ", ".join(word for word in (context, problem) if word) or str(error).replace("\n", " ")
    return DocumentError(mark.line + 1, mark.column + 1, message) if mark else DocumentError(1, 1, message)


class _Reader:
    """Parser of one document; `errors` are those that do not stop it."""

    def __init__(self, text: str):
        self._lines = _BREAK.split(text)
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)
        self.errors: list[DocumentError] = []

    def document(self) -> Node | None:
        tree: Node | None = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Unreadable(_place(event), "only one document is allowed")
                tree = self._node(next(self._events), 1)
        empty = isinstance(tree, YamlScalar) and tree.plain and not tree.value
        return None if empty else tree

    def _node(self, event: Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _Unreadable(_place(event), f"nested deeper than {MAX_DEPTH} levels")
        self._check_references(event)
        if isinstance(event, MappingStartEvent):
            return YamlMapping(tuple(self._entries(depth)), _place(event))
        if isinstance(event, SequenceStartEvent):
            return YamlSequence(tuple(self._items(depth)), _place(event))
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        return YamlScalar("", _place(event), plain=True)  # an alias; it is already in `errors`

    def _check_references(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            self._add_error(event, "aliases are not supported; write the value out")
        elif getattr(event, "anchor", None):
            self._add_error(event, "anchors are not supported; write the value out where it is needed")
        if getattr(event, "tag", None):
            self._add_error(event, "tags are not supported")

    def _items(self, depth: int) -> list[Node]:
        items = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _entries(self, depth: int) -> list[tuple[YamlScalar, Node]]:
        entries: list[tuple[YamlScalar, Node]] = []
        seen: set[str] = set()
        while not isinstance(event := next(self._events), CollectionEndEvent):
            key, value = self._node(event, depth + 1), self._node(next(self._events), depth + 1)
            if not isinstance(key, YamlScalar):
                self.errors.append(DocumentError(*key.mark, "a key must be a string"))
            elif key.plain and key.value == "<<":
                self.errors.append(
                    DocumentError(*key.mark, "merge keys are not supported; write the fields out")
                )
            elif key.value in seen:
                self.errors.append(DocumentError(*key.mark, f"{key.value[:60]!r} is set twice"))
            else:
                seen.add(key.value)
                entries.append((key, value))
        return entries

    def _scalar(self, event: ScalarEvent) -> YamlScalar:
        plain = event.style is None
        return YamlScalar(event.value, _place(event), plain, self._body(event))

    def _body(self, event: ScalarEvent) -> Mark | None:
        """Where the value begins, if its lines are lines of the document; else None."""
        start, end = event.start_mark, event.end_mark
        if event.style == "|":
            return self._block_body(event)
        raw = self._lines[start.line][start.column : end.column] if start.line == end.line else None
        if raw == event.value:
            return _place(event)
        return Mark(start.line + 1, start.column + 2) if raw and raw[1:-1] == event.value else None

    def _block_body(self, event: ScalarEvent) -> Mark | None:
        first = event.start_mark.line + 1
        content = next((line for line in event.value.split("\n") if line), None)
        for line in self._lines[first : event.end_mark.line + 1] if content else ():
            if line.strip():
                return Mark(first + 1, len(line.rstrip("\r")) - len(content or "") + 1)
        return None

    def _add_error(self, event: Event, message: str) -> None:
        self.errors.append(DocumentError(*_place(event), message))


def _place(event: Event) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)
