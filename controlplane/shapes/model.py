"""The shape of a query, parsed from the JSON of `listeners.spark.shape`.

Missing parts are None: the agent is older, or Spark does not provide them. A part of the wrong type raises
ShapeError with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
VERSION = 1
#: Keys under which a saved status entry, or its facts, hold the shape.
WRAPPERS = ("facts", "shape")


class ShapeError(ValueError):
    """The document is not a shape; the message names the wrong part."""


@dataclass(frozen=True)
class Key:
    """A key column of state. `of`: its expression, without expression ids."""

    name: str
    type: str | None
    of: str


@dataclass(frozen=True)
class ShapeOperator:
    """A stateful operator. `values`: (expression, type) of an aggregation's results; `state`: columns of its state rows.

    `state` is (expression, type) pairs for an aggregation, two tuples of types for a join, types else.
    """

    kind: str
    keys: tuple[Key, ...] | None = None
    right_keys: tuple[Key, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    state: tuple[Any, ...] | None = None
    join_type: str | None = None
    condition: str | None = None
    timeout: str | None = None
    time_mode: str | None = None
    output_mode: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """A source or the sink. Option names are in lower case."""

    type: str | None
    description: str = ""
    format: str | None = None
    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def place_of(endpoint: Endpoint) -> str:
    """The description of what is read or written, without the `file:` scheme that some Spark versions add."""
    return re.sub(r"\bfile:/+", "/", endpoint.description)


@dataclass(frozen=True)
class Watermark:
    """A watermark: event-time column and delay."""

    column: str
    delay: str


@dataclass(frozen=True)
class Shape:
    """A query at its start. `conf`: settings of the program; `pinned`: settings that its checkpoint pins."""

    spark: tuple[int, ...] | None
    name: str | None = None
    sources: tuple[Endpoint, ...] | None = None
    sink: Endpoint | None = None
    output_mode: str | None = None
    output_schema: tuple[tuple[str, str], ...] | None = None
    trigger: str | None = None
    operators: tuple[ShapeOperator, ...] | None = None
    watermarks: tuple[Watermark, ...] | None = None
    filters: tuple[str, ...] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    pinned: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str) -> str | None:
        """A setting of the program, explicit or default."""
        return self.conf.get(name)

    def in_force(self, name: str) -> str | None:
        """The setting that a restart from this query's checkpoint uses."""
        return self.pinned.get(name) or self.conf.get(name)


def shape_from(document: Any) -> Shape:
    """Parse a shape, or a document that holds one (`facts`, a status entry). Raises ShapeError."""
    for wrapper in WRAPPERS:
        if isinstance(document, dict) and isinstance(document.get(wrapper), dict):
            document = document[wrapper]
    if not isinstance(document, dict):
        raise ShapeError("a shape is a JSON object")
    if document.get("v") != VERSION:
        raise ShapeError(f"v must be {VERSION}: this is not a shape, or it is of a newer agent")
    trigger = _object(document.get("trigger"), "trigger")
    return Shape(
        spark=_version(_text(document.get("spark"), "spark")),
        name=_text(document.get("name"), "name"),
        sources=_tuple(document.get("sources"), "sources", _endpoint),
        sink=None if document.get("sink") is None else _endpoint(document["sink"], "sink"),
        output_mode=_text(document.get("outputMode"), "outputMode"),
        output_schema=_tuple(document.get("outputSchema"), "outputSchema", _pair),
        trigger=_text(trigger.get("kind"), "trigger.kind"),
        operators=_tuple(document.get("operators"), "operators", _operator),
        watermarks=_tuple(document.get("watermarks"), "watermarks", _watermark),
        filters=_tuple(document.get("filters"), "filters", _known_text),
        conf={**_texts(document.get("settings"), "settings"), **_texts(document.get("conf"), "conf")},
        pinned=_texts(document.get("pinned"), "pinned"),
    )


def _version(text: str | None) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(part or 0) for part in found.groups()) if found else None


def _operator(value: Any, place: str) -> ShapeOperator:
    fields = _object(value, place)
    return ShapeOperator(
        kind=_known_text(fields.get("kind"), f"{place}.kind"),
        keys=_tuple(fields.get("keys"), f"{place}.keys", _key),
        right_keys=_tuple(fields.get("rightKeys"), f"{place}.rightKeys", _key) or (),
        values=_tuple(fields.get("values"), f"{place}.values", _pair) or (),
        state=_tuple(fields.get("state"), f"{place}.state", _frozen),
        join_type=_text(fields.get("joinType"), f"{place}.joinType"),
        condition=_text(fields.get("condition"), f"{place}.condition"),
        timeout=_text(fields.get("timeout"), f"{place}.timeout"),
        time_mode=_text(fields.get("timeMode"), f"{place}.timeMode"),
        output_mode=_text(fields.get("outputMode"), f"{place}.outputMode"),
    )


def _key(value: Any, place: str) -> Key:
    fields = _object(value, place)
    name = _known_text(fields.get("name"), f"{place}.name")
    return Key(
        name, _text(fields.get("type"), f"{place}.type"), _text(fields.get("of"), f"{place}.of") or name
    )


def _endpoint(value: Any, place: str) -> Endpoint:
    fields = _object(value, place)
    return Endpoint(
        type=_text(fields.get("type"), f"{place}.type"),
        description=_text(fields.get("description"), f"{place}.description") or "",
        format=_text(fields.get("format"), f"{place}.format"),
        name=_text(fields.get("name"), f"{place}.name"),
        options=_texts(fields.get("options"), f"{place}.options"),
    )


def _watermark(value: Any, place: str) -> Watermark:
    fields = _object(value, place)
    return Watermark(
        _known_text(fields.get("column"), f"{place}.column"),
        _known_text(fields.get("delay"), f"{place}.delay"),
    )


def _pair(value: Any, place: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ShapeError(f"{place} must be a pair of strings")
    return _known_text(value[0], place), _known_text(value[1], place)


def _frozen(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return tuple(_known_text(each, place) for each in value)
    return _known_text(value, place)


def _tuple(value: Any, place: str, read: Callable[[Any, str], T]) -> tuple[T, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ShapeError(f"{place} must be a list")
    return tuple(read(each, f"{place}[{i}]") for i, each in enumerate(value))


def _object(value: Any, place: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ShapeError(f"{place} must be an object")
    return value


def _text(value: Any, place: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ShapeError(f"{place} must be a string")


def _known_text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    raise ShapeError(f"{place} must be a string")


def _texts(value: Any, place: str) -> dict[str, str]:
    return {name: _known_text(each, f"{place}.{name}") for name, each in _object(value, place).items()}
