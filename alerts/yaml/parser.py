"""Parse one YAML document into a tree, from PyYAML's event stream.

Anchors, aliases and merge keys (`<<`) mean what they mean in YAML 1.1. An alias is the node of its anchor, so it
costs nothing here; what all aliases together stand for is bounded, since a reader visits it. Rejects, each with its
place: tags, several documents, duplicate keys, and keys that are not scalars. Size and depth are bounded. Scalars
stay strings: the reader of a field converts them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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

MAX_BYTES = 16 << 20
MAX_DEPTH = 40
#: Nodes of a document with every alias written out: a few bytes of aliases could stand for gigabytes.
MAX_NODES = 2_000_000
#: libyaml where PyYAML has it; it is ten times faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE = "<<"
#: Line breaks as PyYAML counts them.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class _Anchored(NamedTuple):
    """A node with an anchor: how many nodes it stands for, and how deep it is."""

    node: Node
    size: int
    height: int


class _Unreadable(Exception):
    """Parsing cannot continue."""

    def __init__(self, mark: Mark, message: str):
        super().__init__(message)
        self.error = DocumentError(*mark, message)


def parse(text: str) -> tuple[Node | None, tuple[DocumentError, ...]]:
    """Parse a document: its tree (None: empty or unreadable) and all errors."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return None, (DocumentError(1, 1, "the document has characters that UTF-8 does not have"),)
    if size > MAX_BYTES:
        return None, (DocumentError(1, 1, f"the document has {size} bytes, the limit is {MAX_BYTES}"),)
    reader = _Reader(text.removeprefix("\ufeff"))
    try:
        tree = reader.document()
    except _Unreadable as unreadable:
        return None, (*reader.errors, unreadable.error)
    except yaml.YAMLError as error:
        return None, (*reader.errors, _document_error(error, len(text.rstrip())))
    return tree, tuple(reader.errors)


def _document_error(error: yaml.YAMLError, end: int) -> DocumentError:
    """PyYAML's error with its place; for a construct that is still open at the `end` the place of its start."""
    context, problem = getattr(error, "context", None), getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark and mark.index >= end:
        mark = getattr(error, "context_mark", None) or mark
    message = ", ".join(word for word in (context, problem) if word) or str(error).replace("\n", " ")
    return DocumentError(mark.line + 1, mark.column + 1, message) if mark else DocumentError(1, 1, message)


class _Reader:
    """Parser of one document; `errors` are those that do not stop it."""

    def __init__(self, text: str):
        self._lines = _BREAK.split(text)
        self._events = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, _Anchored] = {}
        self._size = self._deepest = 0
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
        if isinstance(event, AliasEvent):
            return self._alias(event, depth)
        size, outer = self._size, self._deepest
        self._deepest = depth
        self._count(event, 1, depth)
        if getattr(event, "tag", None):
            self._add_error(event, "tags are not supported")
        node = self._content(event, depth)
        if anchor := getattr(event, "anchor", None):
            self._anchors[anchor] = _Anchored(node, self._size - size, self._deepest - depth)
        self._deepest = max(self._deepest, outer)
        return node

    def _content(self, event: Event, depth: int) -> Node:
        if isinstance(event, MappingStartEvent):
            return YamlMapping(tuple(self._entries(depth)), _place(event))
        if isinstance(event, SequenceStartEvent):
            return YamlSequence(tuple(self._items(depth)), _place(event))
        assert isinstance(event, ScalarEvent)
        return self._scalar(event)

    def _alias(self, event: AliasEvent, depth: int) -> Node:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise _Unreadable(_place(event), f"there is no anchor {event.anchor[:60]!r} before this alias")
        self._count(event, anchored.size, depth + anchored.height)
        return anchored.node

    def _count(self, event: Event, nodes: int, depth: int) -> None:
        self._size += nodes
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise _Unreadable(_place(event), f"nested deeper than {MAX_DEPTH} levels")
        if self._size > MAX_NODES:
            raise _Unreadable(_place(event), f"the document stands for more than {MAX_NODES} values")

    def _items(self, depth: int) -> list[Node]:
        items = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _entries(self, depth: int) -> list[tuple[YamlScalar, Node]]:
        entries: dict[str, tuple[YamlScalar, Node]] = {}
        merged: list[tuple[YamlScalar, Node]] = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            key, value = self._node(event, depth + 1), self._node(next(self._events), depth + 1)
            if not isinstance(key, YamlScalar):
                self.errors.append(DocumentError(*key.mark, "a key must be a string"))
            elif key.plain and key.value == MERGE:
                merged += self._merged(key, value)
            elif key.value in entries:
                self.errors.append(DocumentError(*key.mark, f"{key.value[:60]!r} is set twice"))
            else:
                entries[key.value] = (key, value)
        for key, value in merged:  # a mapping's own keys come first, then the mappings in their order
            entries.setdefault(key.value, (key, value))
        return list(entries.values())

    def _merged(self, key: YamlScalar, value: Node) -> list[tuple[YamlScalar, Node]]:
        """The entries that a merge key adds."""
        mappings = value.items if isinstance(value, YamlSequence) else (value,)
        if not all(isinstance(mapping, YamlMapping) for mapping in mappings):
            self.errors.append(DocumentError(*key.mark, "a merge key needs a mapping or a list of mappings"))
        return [pair for mapping in mappings if isinstance(mapping, YamlMapping) for pair in mapping.entries]

    def _scalar(self, event: ScalarEvent) -> YamlScalar:
        plain = not event.style  # libyaml has an empty style where PyYAML has none
        return YamlScalar(event.value, _place(event), plain, self._body(event))

    def _body(self, event: ScalarEvent) -> Mark | None:
        """Where the value begins, if its lines are lines of the document; else None."""
        start, end = event.start_mark, event.end_mark
        if event.style == "|":
            return self._block_body(event)
        if start.line != end.line or start.line >= len(
            self._lines
        ):  # libyaml ends a text with a line of its own
            return None
        raw = self._lines[start.line][start.column : end.column]
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
