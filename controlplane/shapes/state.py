"""Comparison of stateful operators, pair by pair: keys and state columns.

Spark compares the number and types of columns by position. A change that it accepts although the meaning
differs silently continues with wrong state, so it is not allowed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.shapes.buffers import buffer_columns
from controlplane.shapes.findings import (
    ChangeEffect,
    ShapeFinding,
    allowed,
    fatal,
    harmful,
    with_consequences,
)
from controlplane.shapes.model import Key, Shape, ShapeOperator

NOT_THE_OPERATOR = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
KEYS_DIFFER = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
VALUES_DIFFER = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
NEW_CHECKPOINT = "Revert the change, or start on a new checkpoint and rebuild the state."
WINDOWS = ("window", "session_window")
JOIN_STATE = "Both sides of a join keep rows by its keys"


def compare_operators(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the list of operators, in Spark's numbering; if it is the same, compare each pair."""
    if old.operators is None or new.operators is None:
        return
    before, after = [each.kind for each in old.operators], [each.kind for each in new.operators]
    if before != after:
        yield _other_operators(before, after, new)
        return
    for number, (was, now) in enumerate(zip(old.operators, new.operators, strict=True)):
        yield from _compare_pair(number, was, now, old, new)


def _other_operators(before: list[str], after: list[str], new: Shape) -> ShapeFinding:
    change = f"the stateful operators were {_kinds(before)} and are {_kinds(after)}"
    rule = "operators"
    if not before:
        return fatal(
            rule,
            change,
            _with_spark_3(new, "There is no state to continue from."),
            "Revert the change, or start on a new checkpoint: state is built from the rows read from there on.",
            _since_4(new, NO_STATE),
        )
    if _is_3(new) and len(after) < len(before):
        return harmful(
            rule,
            change,
            "Spark 3 does not compare operators: it runs and leaves old state behind.",
            NEW_CHECKPOINT,
        )
    spark = "Spark compares the operators with those that wrote the state."
    return fatal(rule, change, _with_spark_3(new, spark), NEW_CHECKPOINT, _since_4(new, NOT_THE_OPERATOR))


def _kinds(kinds: list[str]) -> str:
    return ", ".join(kinds) or "none"


def _is_3(new: Shape) -> bool:
    return new.spark is not None and new.spark < (4,)


def _since_4(new: Shape, condition: str) -> str | None:
    """The error condition; None on Spark 3, which fails without one."""
    return None if _is_3(new) else condition


def _with_spark_3(new: Shape, text: str) -> str:
    return f"{text} Spark 3 reports a missing state file or a schema mismatch." if _is_3(new) else text


def _is_lenient(old: Shape, new: Shape) -> bool:
    """Whether nullability is not compared: since 4.3 all state columns are nullable."""
    return all(shape.spark is None or shape.spark >= (4, 3) for shape in (old, new))


def _compare_pair(
    number: int, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    check = {"join": _join, "aggregate": _aggregate, "session_aggregate": _aggregate}.get(was.kind, _grouped)
    rule = RULES.get(was.kind, "state")
    at = f"{was.kind} (operator {number})"
    found = list(check(rule, at, was, now, old, new))
    for finding in found:
        yield _unchecked(finding) if _without_check(new, finding) else finding


#: Kind of operator → name of its rule in Spark's guide.
RULES = {
    "aggregate": "aggregation",
    "session_aggregate": "aggregation",
    "deduplicate": "deduplication",
    "deduplicate_within_watermark": "deduplication",
    "join": "join",
}


def _without_check(new: Shape, finding: ShapeFinding) -> bool:
    return new.setting(SCHEMA_CHECK) == "false" and finding.condition in (KEYS_DIFFER, VALUES_DIFFER)


def _unchecked(finding: ShapeFinding) -> ShapeFinding:
    return harmful(
        finding.rule,
        finding.change,
        "The state schema check is off: old bytes are read with the new schema, which gives wrong results or fails on a "
        "row that cannot be read.",
        "Switch the check on and revert the change.",
    )


# -- keys ------------------------------------------------------------------------------------------


def _keys(
    rule: str, at: str, was: tuple[Key, ...] | None, now: tuple[Key, ...] | None, new: Shape
) -> Iterator[ShapeFinding]:
    """Compare the keys. Spark compares only number and types; the expressions of the keys are compared here."""
    if was is None or now is None:
        return
    change = f"{at}: the keys were {_named(was)} and are {_named(now)}"
    if len(was) != len(now) or any(_retyped(a, b) for a, b in zip(was, now, strict=True)):
        spark = "Spark compares number and types of the keys with those in the state."
        yield fatal(f"{rule}.keys", change, spark, NEW_CHECKPOINT, _since_4(new, KEYS_DIFFER))
        return
    for before, after in zip(was, now, strict=True):
        if before.of != after.of:
            yield _remade(rule, at, before, after)
    if [key.of for key in was] == [key.of for key in now] and _names(was) != _names(now):
        yield allowed(f"{rule}.keys", f"{change}: only names differ", "Spark compares keys by type.")


def _names(keys: tuple[Key, ...]) -> list[str]:
    return [key.name for key in keys]


def _named(keys: tuple[Key, ...]) -> str:
    return "(" + ", ".join(f"{key.name} {key.type or '?'}" for key in keys) + ")"


def _retyped(before: Key, after: Key) -> bool:
    return before.type is not None and after.type is not None and before.type != after.type


def _remade(rule: str, at: str, before: Key, after: Key) -> ShapeFinding:
    if before.name == after.name and before.name in WINDOWS:
        return with_consequences(
            f"{rule}.window",
            ChangeEffect.HARMS,
            f"{at}: the definition of the {before.name} has changed",
            "It runs: windows of both definitions coexist until the watermark has passed the old ones.",
            "Expect mixed results until then, or start on a new checkpoint.",
        )
    return harmful(
        f"{rule}.keys",
        f"{at}: the key {before.name} was {_cut(before.of)} and is {_cut(after.of)}",
        "It runs, because the type is the same: state of the old key is used for the new key.",
        NEW_CHECKPOINT,
    )


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


# -- aggregations ----------------------------------------------------------------------------------


def _aggregate(
    rule: str, at: str, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    yield from _keys(rule, at, was.keys, now.keys, new)
    has_state = was.state is not None and now.state is not None
    before, after = (was.state or (), now.state or ()) if has_state else (was.values, now.values)
    if was.values == now.values and _types(before) == _types(after):
        return
    if before == after:
        changed = f"{at}: the results are computed differently"
        yield allowed(f"{rule}.values", changed, "The state columns are the same.")
        return
    change = f"{at}: the aggregates were {_listed(before)} and are {_listed(after)}"
    yield _values(f"{rule}.values", change, before, after, old, new)


def _types(values: tuple[tuple[str, str], ...]) -> list[str]:
    return [type for _, type in values]


def _listed(values: tuple[tuple[str, str], ...]) -> str:
    return "(" + ", ".join(_cut(expression) for expression, _ in values) + ")"


def _values(
    rule: str,
    change: str,
    was: tuple[tuple[str, str], ...],
    now: tuple[tuple[str, str], ...],
    old: Shape,
    new: Shape,
) -> ShapeFinding:
    before, after = buffer_columns(was), buffer_columns(now)
    if before is not None and after is not None and _fits(before, after, _is_lenient(old, new)):
        spark = "It runs, because the state columns have the same types: values of one aggregate are used for another."
        return harmful(rule, change, spark, NEW_CHECKPOINT)
    spark = "Spark compares number and types of the state columns with those in the checkpoint."
    return fatal(rule, change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))


def _fits(before: tuple[tuple[str, bool], ...], after: tuple[tuple[str, bool], ...], lenient: bool) -> bool:
    return before == after or (lenient and [t for t, _ in before] == [t for t, _ in after])


# -- joins -----------------------------------------------------------------------------------------


def _join(
    rule: str, at: str, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    keys = list(_keys(rule, at, was.keys, now.keys, new)) + list(
        _keys(rule, f"{at}, right side", was.right_keys, now.right_keys, new)
    )
    yield from (_strict(each, old, new) for each in keys)
    if any(each.effect is ChangeEffect.FAILS for each in keys):
        return
    if was.state is not None and now.state is not None and was.state != now.state:
        change = f"{at}: the sides' rows were {_sides(was)} and are {_sides(now)}"
        spark = f"{JOIN_STATE}, with every column used later; Spark compares their number and types."
        yield fatal(f"{rule}.schema", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    elif was.join_type != now.join_type:
        yield _strict(_type(rule, at, was, now), old, new)
    elif was.condition != now.condition and not keys:
        yield with_consequences(
            f"{rule}.condition",
            ChangeEffect.UNKNOWN,
            f"{at}: the condition was {_cut(was.condition or 'none')} and is {_cut(now.condition or 'none')}",
            "It runs: rows in the state are joined by the new condition and dropped by its time bounds.",
            "Start on a new checkpoint if all results must follow one condition.",
        )


def _sides(join: ShapeOperator) -> str:
    return " and ".join(f"({', '.join(side)})" for side in join.state or ())


def _type(rule: str, at: str, was: ShapeOperator, now: ShapeOperator) -> ShapeFinding:
    return harmful(
        f"{rule}.type",
        f"{at}: it was {was.join_type} and is {now.join_type}",
        "It runs, because the state columns are the same: rows matched or dropped under the old join type "
        "are treated under the new one.",
        NEW_CHECKPOINT,
    )


def _strict(finding: ShapeFinding, old: Shape, new: Shape) -> ShapeFinding:
    """Before 4.3 Spark also compares nullability, which these changes alter, so they fail."""
    if finding.effect is not ChangeEffect.HARMS or _is_lenient(old, new):
        return finding
    spark = "The nullability of columns differs from the state, and Spark compares it."
    return fatal(finding.rule, finding.change, spark, finding.remedy, _since_4(new, VALUES_DIFFER))


# -- deduplication, arbitrary state, limits --------------------------------------------------------


def _grouped(
    rule: str, at: str, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    yield from _keys(rule, at, was.keys, now.keys, new)
    if was.state is not None and now.state is not None and was.state != now.state:
        change = f"{at}: the state was {_cut(str(was.state[0]))} and is {_cut(str(now.state[0]))}"
        spark = "Spark compares the state schema with the one in the checkpoint."
        yield fatal(f"{rule}.schema", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    if was.timeout != now.timeout:
        yield _timeout(rule, at, was, now, new)
    for name, before, after in (
        ("time mode", was.time_mode, now.time_mode),
        ("output mode", was.output_mode, now.output_mode),
    ):
        if before is not None and after is not None and before != after and was.time_mode is not None:
            change = f"{at}: the {name} was {before} and is {after}"
            spark = "Spark stores it with the state and compares it."
            yield fatal(rule, change, spark, NEW_CHECKPOINT, "STATE_STORE_INVALID_CONFIG_AFTER_RESTART")


def _timeout(rule: str, at: str, was: ShapeOperator, now: ShapeOperator, new: Shape) -> ShapeFinding:
    change = f"{at}: the timeout was {was.timeout} and is {now.timeout}"
    if "NoTimeout" in (was.timeout, now.timeout):
        spark = "With a timeout the state of each group has one more column."
        return fatal(f"{rule}.timeout", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    spark = "It runs: timestamps set by one clock are compared with the other."
    return harmful(f"{rule}.timeout", change, spark, NEW_CHECKPOINT)
