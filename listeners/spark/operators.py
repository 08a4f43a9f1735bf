"""Describe the stateful operators of a running query from its analyzed plan, and what their state contains.

The plan's text gives the position of each operator; a few py4j calls to the plan's nodes give its details.
Called by `listeners.spark.shape`. Sources of the names: Spark's `org.apache.spark.sql.catalyst.plans.logical`
(3.4 to 4.3).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Callable

from listeners.spark import plans

#: Unit separator: occurs in no expression, option or setting.
SEPARATOR = "\x1f"
MAX_FIELDS = 1000
MAX_OPERATORS = 100

#: Class of a logical node → kind. A node counts as stateful if its input is a stream.
KINDS = {
    "Aggregate": "aggregate",
    "Distinct": "aggregate",
    "Deduplicate": "deduplicate",
    "DeduplicateWithinWatermark": "deduplicate_within_watermark",
    "Join": "join",
    "GlobalLimit": "limit",
    "FlatMapGroupsWithState": "flat_map_groups_with_state",
    "FlatMapGroupsInPandasWithState": "apply_in_pandas_with_state",
    "TransformWithState": "transform_with_state",
    "TransformWithStateInPandas": "transform_with_state_in_python",
    "TransformWithStateInPySpark": "transform_with_state_in_python",
}
#: Methods that return a node's grouping expressions.
GROUPINGS = ("keys", "groupingAttributes", "leftAttributes")
Column = tuple[str, str, str]  # id, name, type


def attempt(ask: Callable[[], Any]) -> Any:
    """The answer, or None if this Spark has none; the rest of the shape remains useful."""
    try:
        return ask()
    except Exception:
        return None


def operators(execution: Any, analyzed: Any, tree: list[plans.Node]) -> list[dict[str, Any]]:
    """The stateful operators in Spark's numbering, from the sink towards the sources."""
    made = plans.column_definitions(tree)
    found = [_operator(node, kind, made) for node, kind in _stateful(analyzed, tree)]
    if any(_plain(each["kind"]) in STATES for each in found):
        _add_state(found, attempt(lambda: _optimized(execution, analyzed)))
    return found


def _stateful(plan: Any, tree: list[plans.Node]) -> list[tuple[Any, str]]:
    found = []
    for each in tree[:MAX_FIELDS]:
        if each.name in KINDS:
            node = plan.apply(each.position)
            if node.nodeName() == each.name and _is_stateful(node, each.name):
                found.append((node, KINDS[each.name]))
    return found[:MAX_OPERATORS]


def _is_stateful(node: Any, name: str) -> bool:
    if name == "Join":
        return bool(node.left().isStreaming() and node.right().isStreaming())
    return bool(node.isStreaming())


def _operator(node: Any, kind: str, made: dict[str, str]) -> dict[str, Any]:
    """One operator: its kind, its keys with types, and what else its state depends on."""
    found: dict[str, Any] = {"kind": kind, "keys": None}
    describe = DESCRIPTIONS.get(kind, _arbitrary)
    more = attempt(partial(describe, node, made))
    found.update(more or {})
    return found


def _aggregate(node: Any, made: dict[str, str]) -> dict[str, Any]:
    if node.nodeName() == "Distinct":
        return {
            "keys": [_key(f"{n}#{i}", columns_of(node), made) for i, n, _ in columns_of(node)],
            "values": [],
        }
    columns, inputs = columns_of(node), columns_of(node.child())
    keys = texts_of(node.groupingExpressions())
    values = _values(node, columns, keys)
    session = any(plans.strip_ids(key) == "session_window" for key in keys)
    return {
        "kind": "session_aggregate" if session else "aggregate",
        "keys": [_key(key, inputs + _aliased(node, columns), made) for key in keys],
        "values": [[plans.abbreviate(plans.expand_columns(text, made)), type] for text, type in values],
    }


def _values(node: Any, columns: list[Column], keys: list[str]) -> list[tuple[str, str]]:
    """An Aggregate's results without its keys: (expression without its alias, type)."""
    texts = [plans.strip_alias(text) for text in texts_of(node.aggregateExpressions())]
    return [(text, column[2]) for text, column in zip(texts, columns) if text not in keys]


def _aliased(node: Any, columns: list[Column]) -> list[Column]:
    """Grouping expressions that are not plain columns, named by their text, with their alias's type."""
    texts = [plans.strip_alias(text) for text in texts_of(node.aggregateExpressions())]
    return [(text, text, column[2]) for text, column in zip(texts, columns)]


def _grouping(node: Any) -> list[str]:
    """A node's grouping expressions, whatever the method is called."""
    for name in GROUPINGS:
        found = attempt(partial(_texts_at, node, name))
        if found:
            return list(found)
    return []


def _texts_at(node: Any, name: str) -> list[str]:
    return texts_of(getattr(node, name)())


def _grouped(node: Any, made: dict[str, str]) -> dict[str, Any]:
    keys = _grouping(node)
    inputs = columns_of(node.child()) if keys else []
    return {"keys": [_key(key, inputs, made) for key in keys]}


def _arbitrary(node: Any, made: dict[str, str]) -> dict[str, Any]:
    """State that a user's function manages, as far as the node describes it."""
    return {
        **_grouped(node, made),
        "state": attempt(lambda: [plans.type_name(json.loads(node.stateType().json()))]),
        "timeout": attempt(lambda: str(node.timeout().toString())),
        "timeMode": attempt(lambda: str(node.timeMode().toString())),
        "outputMode": attempt(lambda: str(node.outputMode().toString()).lower()),
    }


def _join(node: Any, made: dict[str, str]) -> dict[str, Any]:
    left, right = columns_of(node.left()), columns_of(node.right())
    option = node.condition()
    condition = str(option.get().toString()) if option.isDefined() else ""
    pairs = plans.equal_keys(condition, {each[0] for each in left}, {each[0] for each in right})
    return {
        "joinType": str(node.joinType().toString()),
        "condition": plans.abbreviate(plans.strip_ids(condition)),
        "keys": [_key(key, left, made) for key, _ in pairs],
        "rightKeys": [_key(key, right, made) for _, key in pairs],
    }


def _key(text: str, columns: list[Column], made: dict[str, str]) -> dict[str, Any]:
    """A key's name, type and definition."""
    wanted = plans.column_id(text) or text
    type = next((type for id, _, type in columns if id == wanted), None)
    return {
        "name": plans.abbreviate(plans.strip_ids(text)),
        "type": type,
        "of": plans.abbreviate(plans.expand_columns(text, made)),
    }


def _bare(node: Any, made: dict[str, str]) -> dict[str, Any]:
    return {"keys": []}


DESCRIPTIONS: dict[str, Callable[[Any, dict[str, str]], dict[str, Any]]] = {
    "aggregate": _aggregate,
    "deduplicate": _grouped,
    "deduplicate_within_watermark": _grouped,
    "join": _join,
    "limit": _bare,
}


# -- columns in the state: the optimizer prunes columns --------------------------------------------


def _optimized(execution: Any, analyzed: Any) -> Any:
    """The optimized plan of the last batch; without a batch, the analyzed plan optimized now.

    Optimizing only reads the plan. It is skipped where a static table takes part: it might list files.
    """
    last = attempt(lambda: execution.lastExecution().optimizedPlan())
    if last is not None:
        return last
    static = [leaf for leaf in items(analyzed.collectLeaves()) if not leaf.isStreaming()]
    if any(leaf.getClass().getSimpleName() not in plans.FIXED_LEAVES for leaf in static):
        return None
    return execution.sparkSessionForStream().sessionState().optimizer().execute(analyzed)


def _add_state(operators: list[dict[str, Any]], plan: Any) -> None:
    """Add the columns that the state rows of aggregates and joins contain, unless the plans disagree."""
    tree = plans.nodes(tree_of(plan)) if plan is not None else []
    found = _stateful(plan, tree) if plan is not None else []
    if [kind for _, kind in found] != [_plain(each["kind"]) for each in operators]:
        return
    for operator, (node, kind) in zip(operators, found):
        if kind in STATES:
            operator["state"] = attempt(partial(STATES[kind], node))


def _plain(kind: str) -> str:
    return "aggregate" if kind == "session_aggregate" else kind


def _state_values(node: Any) -> list[list[str]]:
    keys = texts_of(node.groupingExpressions())
    return [[plans.abbreviate(plans.strip_ids(t)), type] for t, type in _values(node, columns_of(node), keys)]


def _state_sides(node: Any) -> list[list[str]]:
    return [_types(node.left()), _types(node.right())]


def _types(node: Any) -> list[str]:
    return [type for _, _, type in columns_of(node)]


STATES: dict[str, Callable[[Any], Any]] = {"aggregate": _state_values, "join": _state_sides}


# -- py4j in as few calls as possible --------------------------------------------------------------


def tree_of(plan: Any) -> str:
    """A plan's text with all fields of each node; older Sparks accept fewer arguments."""
    for rest in ((False, False), (False,)):
        text = attempt(partial(_tree_string, plan, rest))
        if text is not None:
            return str(text)
    return str(plan.toString())


def _tree_string(plan: Any, rest: tuple[bool, ...]) -> Any:
    return plan.treeString(True, False, MAX_FIELDS, *rest)


def texts_of(sequence: Any) -> list[str]:
    """The elements of a Scala sequence as text, in one call."""
    return pieces(sequence.mkString(SEPARATOR))


def pieces(text: Any) -> list[str]:
    """Split a text at SEPARATOR; empty for an empty text."""
    return str(text).split(SEPARATOR) if text else []


def columns_of(plan: Any) -> list[Column]:
    """A node's columns, in two calls."""
    fields = json.loads(plan.schema().json())["fields"]
    texts = texts_of(plan.output())
    return [
        (plans.column_id(text) or text, field["name"], plans.type_name(field["type"]))
        for text, field in zip(texts, fields)
    ]


def scala_map(found: Any) -> dict[str, str]:
    """A Scala map of strings."""
    pairs = [piece.partition(" -> ") for piece in texts_of(found)]
    return {key: value for key, _, value in pairs}


def java_map(found: Any) -> dict[str, str]:
    """A Java map of strings."""
    from pyspark import SparkContext

    join = SparkContext._jvm.java.lang.String.join  # type: ignore[union-attr]
    return dict(zip(pieces(join(SEPARATOR, found.keySet())), pieces(join(SEPARATOR, found.values()))))


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]
