"""Parse the text of Spark's logical plans: nodes, column definitions, join keys.

Pure functions over text, called by `listeners.spark.shape`. Source of the format: `TreeNode.treeString` and
the `simpleString` of Spark's expressions (4.3; 3.x writes them alike): `k#0`, `v#1L`, `ts#2-T60000ms`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

#: A longer expression keeps its two ends: it is compared and read, not executed.
MAX_CHARS = 300
#: Limits for replacing columns by their definitions; beyond them the column's name is used.
MAX_DEPTH = 8

#: Leaves of a plan that cannot change between two starts: data inside the plan itself.
FIXED_LEAVES = ("LocalRelation", "OneRowRelation", "Range")

_NODE = re.compile(r"^(?P<lead>(?:[: ]  )*(?:[:+]- )?)(?P<state>[~!']*)(?P<name>[A-Z]\w*)(?P<rest>.*)$")
_ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
_ALIAS = re.compile(r"^(?P<is>.*) AS (?P<name>.*)#(?P<id>\d+)L?(?:-T\d+ms)?$", re.DOTALL)
_COLUMN = re.compile(r"^[^()\s]+#(\d+)L?(?:-T\d+ms)?$")
_OPEN, _CLOSE = "([{", ")]}"


class Node(NamedTuple):
    """One node of a plan: preorder position from 0, depth, class and the rest of its line."""

    position: int
    depth: int
    name: str
    text: str


def nodes(tree: str) -> list[Node]:
    """The nodes of a plan's text in preorder. Continuation lines of a node's text are not nodes."""
    found = [match for match in map(_NODE.match, tree.splitlines()) if match]
    return [Node(i, len(m["lead"]) // 3, m["name"], m["rest"].strip()) for i, m in enumerate(found)]


def strip_ids(expression: str) -> str:
    """An expression without the ids that differ between runs: `sum(v#1L)` → `sum(v)`."""
    return _ID.sub("", expression)


def abbreviate(text: str) -> str:
    """At most about MAX_CHARS: the two ends of a longer text with a digest of the whole between them."""
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[: MAX_CHARS // 2]} …{digest(text)}… {text[-MAX_CHARS // 2 :]}"


def digest(text: str) -> str:
    """A hash to compare two texts without revealing them: they may be private."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def strip_alias(expression: str) -> str:
    """`sum(v#1L) AS total#2L` → `sum(v#1L)`."""
    alias = _ALIAS.match(expression)
    return alias["is"] if alias else expression


def split(text: str, separator: str) -> list[str]:
    """Split at separators outside all brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            at = start = at + len(separator)
        else:
            at += 1
    return [*parts, text[start:]]


def column_definitions(plan: list[Node]) -> dict[str, str]:
    """Column id → the expression that defines it in a Project or Aggregate."""
    made: dict[str, str] = {}
    for node in plan:
        if node.name not in ("Project", "Aggregate"):
            continue
        for part in split(node.text, ", "):
            for item in split(_unbracketed(part), ", "):
                alias = _ALIAS.match(item)
                if alias:
                    made[alias["id"]] = alias["is"]
    return made


def _unbracketed(text: str) -> str:
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def expand_columns(expression: str, made: dict[str, str], depth: int = 0) -> str:
    """An expression with its columns replaced by their definitions, without ids."""
    column = _COLUMN.match(expression)
    if column and column.group(1) in made and depth < MAX_DEPTH:
        return expand_columns(made[column.group(1)], made, depth + 1)
    parts = re.split(r"([^\s()\[\],]+#\d+L?(?:-T\d+ms)?)", expression)
    if len(parts) == 1 or depth >= MAX_DEPTH or len(expression) > 20 * MAX_CHARS:
        return strip_ids(expression)
    return "".join(
        expand_columns(part, made, depth + 1) if i % 2 and part != expression else strip_ids(part)
        for i, part in enumerate(parts)
    )


def column_id(expression: str) -> str | None:
    """The id of a plain column `k#0`; None for any other expression."""
    column = _COLUMN.match(expression)
    return column.group(1) if column else None


def column_ids(expression: str) -> set[str]:
    """The ids of all columns in an expression."""
    return set(_ID.findall(expression))


def equal_keys(condition: str, left: set[str], right: set[str]) -> list[tuple[str, str]]:
    """(left, right) pairs of a join's equality keys, with ids; `left`, `right`: the sides' column ids."""
    pairs = []
    for conjunct in _conjuncts(condition):
        sides = split(_open(conjunct), " = ")
        if len(sides) == 2 and column_ids(sides[0]) and column_ids(sides[1]):
            if column_ids(sides[0]) <= left and column_ids(sides[1]) <= right:
                pairs.append((sides[0], sides[1]))
            elif column_ids(sides[0]) <= right and column_ids(sides[1]) <= left:
                pairs.append((sides[1], sides[0]))
    return pairs


def _conjuncts(condition: str) -> list[str]:
    parts = split(_open(condition), " AND ")
    return [condition] if len(parts) == 1 else [each for part in parts for each in _conjuncts(part)]


def _open(text: str) -> str:
    """The text without brackets around the whole."""
    while text.startswith("(") and text.endswith(")") and len(split(text[1:-1], "\0")) == 1 and _whole(text):
        text = text[1:-1]
    return text


def _whole(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def type_name(found: Any) -> str:
    """A type of Spark's schema JSON without names and nullability: `struct<long,array<string>>`."""
    if not isinstance(found, dict):
        return str(found)
    kind = found.get("type")
    if kind == "struct":
        return "struct<%s>" % ",".join(type_name(each["type"]) for each in found.get("fields", []))
    if kind == "array":
        return "array<%s>" % type_name(found.get("elementType"))
    if kind == "map":
        return "map<%s,%s>" % (type_name(found.get("keyType")), type_name(found.get("valueType")))
    return str(found.get("sqlType") or found.get("class") or kind)


def parse_trigger(text: str | None) -> tuple[str | None, float | None]:
    """`ProcessingTimeTrigger(2000)` → ("processing_time", 2.0 seconds)."""
    kinds = {
        "ProcessingTime": "processing_time",
        "AvailableNow": "available_now",
        "OneTime": "once",
        "Continuous": "continuous",
        "RealTime": "real_time",
    }
    for word, kind in kinds.items():
        if text and text.startswith(word):
            interval = re.search(r"\((\d+)", text)
            return kind, int(interval.group(1)) / 1000.0 if interval else None
    return None, None


_WATERMARK = re.compile(r"EventTimeWatermark .*, ((?:-?[\d.]+ [a-z]+ ?)+)$", re.MULTILINE)
#: Spark's own rule for watermark delays: a month has 31 days.
_UNITS = {
    "years": 12 * 31 * 86400.0,
    "months": 31 * 86400.0,
    "days": 86400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
}


def parse_delay(plan: str) -> float | None:
    """The longest delay of a plan's watermarks in seconds; None without one.

    `EventTimeWatermark 41fd…, ts#0: timestamp, 1 minutes 30 seconds` → 90.0; Spark 3 names no node id.
    """
    try:
        return max((_seconds(delay) for delay in _WATERMARK.findall(plan)), default=None)
    except (KeyError, ValueError):  # a later Spark uses another form
        return None


def _seconds(interval: str) -> float:
    parts = interval.split()
    return sum(float(number) * _UNITS[unit] for number, unit in zip(parts[::2], parts[1::2]))
