"""Reads one YAML document into a tree, by PyYAML's stream of events.

Refused, each with its place: anchors and aliases (a few bytes of them stand for gigabytes), tags, several
documents, the same key twice, keys that are no texts. Bounded in size and depth. No value is ever built
by YAML's rules: a text stays a text until somebody says what it should be.
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
#: What PyYAML counts as the end of a line.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class _Unreadable(Exception):
    """Nothing sensible can be read from here on."""

    def __init__(self, mark: Mark, message: str):
        super().__init__(message)
        self.error = DocumentError(*mark, message)


def parse(text: str) -> tuple[Node | None, tuple[DocumentError, ...]]:
    """The document as a tree (None: empty, or not readable), and every mistake that was met on the way."""
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        return None, (DocumentError(1, 1, f"a document may have {MAX_BYTES} bytes, not {size}"),)
    reader = _Reader(text.removeprefix("\ufeff"))
    try:
        tree = reader.document()
    except _Unreadable as unreadable:
        return None, (*reader.errors, unreadable.error)
    except yaml.YAMLError as error:
        return None, (*reader.errors, _document_error(error))
    return tree, tuple(reader.errors)


def _document_error(error: yaml.YAMLError) -> DocumentError:
    """PyYAML's error with its place; of what is never closed, where it was opened."""
    context, problem = getattr(error, "context", None), getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if "stream end" in str(problem) or "end of stream" in str(problem):
        mark = getattr(error, "context_mark", None) or mark
    message = ", ".join(word for word in (context, problem) if word) or str(error).replace("\n", " ")
    return DocumentError(mark.line + 1, mark.column + 1, message) if mark else DocumentError(1, 1, message)


class _Reader:
    """One document. `errors` do not end the reading."""

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
                    raise _Unreadable(_place(event), "only one document may stand here")
                tree = self._node(next(self._events), 1)
        empty = isinstance(tree, YamlScalar) and tree.plain and not tree.value
        return None if empty else tree

    def _node(self, event: Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _Unreadable(_place(event), f"nested deeper than {MAX_DEPTH}")
        self._check_references(event)
        if isinstance(event, MappingStartEvent):
            return YamlMapping(tuple(self._entries(depth)), _place(event))
        if isinstance(event, SequenceStartEvent):
            return YamlSequence(tuple(self._items(depth)), _place(event))
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        return YamlScalar("", _place(event), plain=True)  # an alias, told as a mistake

    def _check_references(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            self._add_error(event, "an alias is not taken: write the value out")
        elif getattr(event, "anchor", None):
            self._add_error(event, "an anchor is not taken: write the value out where it is needed")
        if getattr(event, "tag", None):
            self._add_error(event, "a tag is not taken")

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
                self.errors.append(DocumentError(*key.mark, "a key must be a text"))
            elif key.plain and key.value == "<<":
                self.errors.append(DocumentError(*key.mark, "a merge is not taken: write the fields out"))
            elif key.value in seen:
                self.errors.append(DocumentError(*key.mark, f"{key.value[:60]!r} is given twice"))
            else:
                seen.add(key.value)
                entries.append((key, value))
        return entries

    def _scalar(self, event: ScalarEvent) -> YamlScalar:
        plain = event.style is None
        return YamlScalar(event.value, _place(event), plain, self._body(event))

    def _body(self, event: ScalarEvent) -> Mark | None:
        """Where the value begins, if its lines are lines of the document."""
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
