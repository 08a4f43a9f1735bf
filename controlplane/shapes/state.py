"""The stateful operators of two shapes, pair by pair: what the state is kept by, and what it holds.

Spark compares number and types of columns, by position. What it takes although it means something else
goes on silently with wrong state, so that is not allowed here either.
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
NEW_CHECKPOINT = "Put it back, or start on a new checkpoint and fill in what the old state knew."
WINDOWS = ("window", "session_window")
JOIN_STATE = "Both sides of a join remember rows by its keys"


def compare_operators(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """First whether the operators are the same ones, in the order in which Spark numbers them; then each."""
    if old.operators is None or new.operators is None:
        return
    before, after = [each.kind for each in old.operators], [each.kind for each in new.operators]
    if before != after:
        yield _other_operators(before, after, new)
        return
    for number, (was, now) in enumerate(zip(old.operators, new.operators, strict=True)):
        yield from _one(number, was, now, old, new)


def _other_operators(before: list[str], after: list[str], new: Shape) -> ShapeFinding:
    change = f"the stateful operators were {_kinds(before)} and are {_kinds(after)}"
    rule = "operators"
    if not before:
        return fatal(
            rule,
            change,
            _says(new, "There is no state to go on from."),
            NEW_CHECKPOINT,
            _since_4(new, NO_STATE),
        )
    if _is_3(new) and len(after) < len(before):
        return harmful(
            rule,
            change,
            "Spark 3 does not compare operators: it runs, and old state is left behind.",
            NEW_CHECKPOINT,
        )
    spark = "Spark compares the operators with those that wrote the state."
    return fatal(rule, change, _says(new, spark), NEW_CHECKPOINT, _since_4(new, NOT_THE_OPERATOR))


def _kinds(kinds: list[str]) -> str:
    return ", ".join(kinds) or "none"


def _is_3(new: Shape) -> bool:
    return new.spark is not None and new.spark < (4,)


def _since_4(new: Shape, condition: str) -> str | None:
    """Spark 3 has the failure and not the condition."""
    return None if _is_3(new) else condition


def _says(new: Shape, words: str) -> str:
    return f"{words} On Spark 3 a state file is missing, or the schemas differ." if _is_3(new) else words


def _is_lenient(old: Shape, new: Shape) -> bool:
    """Since 4.3 columns of state may be null; a checkpoint of that version no longer compares it."""
    return all(shape.spark is None or shape.spark >= (4, 3) for shape in (old, new))


def _one(
    number: int, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    check = {"join": _join, "aggregate": _aggregate, "session_aggregate": _aggregate}.get(was.kind, _grouped)
    rule = RULES.get(was.kind, "state")
    at = f"{was.kind} (operator {number})"
    found = list(check(rule, at, was, now, old, new))
    for finding in found:
        yield _unchecked(finding) if _without_check(new, finding) else finding


#: Kind → what the guide calls the rule on it.
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
        "The check of the state's schema is switched off: old bytes are read with the new schema, which gives wrong "
        "results, or fails on a row that cannot be read.",
        "Switch the check on again and put the query back.",
    )


# -- keys ------------------------------------------------------------------------------------------


def _keys(
    rule: str, at: str, was: tuple[Key, ...] | None, now: tuple[Key, ...] | None, new: Shape
) -> Iterator[ShapeFinding]:
    """Number and types are compared by Spark; what a key is made of by nobody but us."""
    if was is None or now is None:
        return
    change = f"{at}: the keys were {_named(was)} and are {_named(now)}"
    if len(was) != len(now) or any(_retyped(a, b) for a, b in zip(was, now, strict=True)):
        spark = "Keys are compared by number and type with those in the state."
        yield fatal(f"{rule}.keys", change, spark, NEW_CHECKPOINT, _since_4(new, KEYS_DIFFER))
        return
    for before, after in zip(was, now, strict=True):
        if before.of != after.of:
            yield _remade(rule, at, before, after)
    if [key.of for key in was] == [key.of for key in now] and _names(was) != _names(now):
        yield allowed(f"{rule}.keys", f"{change}: only names differ", "Keys are compared by type.")


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
            f"{at}: the {before.name} is made in another way",
            "It runs: windows of both kinds stand side by side until the watermark has passed the old ones.",
            "Expect odd results for that long, or start on a new checkpoint.",
        )
    return harmful(
        f"{rule}.keys",
        f"{at}: the key {before.name} was {_cut(before.of)} and is {_cut(after.of)}",
        "It runs, as the type is the same: state of the old key is taken for the new one's.",
        NEW_CHECKPOINT,
    )


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


# -- aggregations ----------------------------------------------------------------------------------


def _aggregate(
    rule: str, at: str, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    yield from _keys(rule, at, was.keys, now.keys, new)
    told = was.state is not None and now.state is not None
    before, after = (was.state or (), now.state or ()) if told else (was.values, now.values)
    if was.values == now.values and _types(before) == _types(after):
        return
    if before == after:
        words = f"{at}: results are made differently"
        yield allowed(f"{rule}.values", words, "What the state holds is the same.")
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
        spark = (
            "It runs, as the state's columns have the same types: what one remembered is taken for another's."
        )
        return harmful(rule, change, spark, NEW_CHECKPOINT)
    spark = "Columns of the state are compared by number and type with those that are there."
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
        spark = (
            f"{JOIN_STATE}, with every column that is used further on; they are compared by number and type."
        )
        yield fatal(f"{rule}.schema", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    elif was.join_type != now.join_type:
        yield _strict(_type(rule, at, was, now), old, new)
    elif was.condition != now.condition and not keys:
        yield with_consequences(
            f"{rule}.condition",
            ChangeEffect.UNKNOWN,
            f"{at}: the condition was {_cut(was.condition or 'none')} and is {_cut(now.condition or 'none')}",
            "It runs: rows that wait in the state are joined by the new condition, and are dropped by its time bounds.",
            "Start on a new checkpoint where results must be of one kind.",
        )


def _sides(join: ShapeOperator) -> str:
    return " and ".join(f"({', '.join(side)})" for side in join.state or ())


def _type(rule: str, at: str, was: ShapeOperator, now: ShapeOperator) -> ShapeFinding:
    return harmful(
        f"{rule}.type",
        f"{at}: it was {was.join_type} and is {now.join_type}",
        "It runs, as the state's columns are the same: rows that were matched or given up by the old "
        "rule are judged by the new one.",
        NEW_CHECKPOINT,
    )


def _strict(finding: ShapeFinding, old: Shape, new: Shape) -> ShapeFinding:
    """Before 4.3 which columns may be null is compared too, and these changes move that."""
    if finding.effect is not ChangeEffect.HARMS or _is_lenient(old, new):
        return finding
    spark = "Which columns may be null differs from what the state says, and that is compared."
    return fatal(finding.rule, finding.change, spark, finding.remedy, _since_4(new, VALUES_DIFFER))


# -- deduplication, arbitrary state, limits --------------------------------------------------------


def _grouped(
    rule: str, at: str, was: ShapeOperator, now: ShapeOperator, old: Shape, new: Shape
) -> Iterator[ShapeFinding]:
    yield from _keys(rule, at, was.keys, now.keys, new)
    if was.state is not None and now.state is not None and was.state != now.state:
        change = f"{at}: the state was {_cut(str(was.state[0]))} and is {_cut(str(now.state[0]))}"
        spark = "The schema of the state is compared with the one that is there."
        yield fatal(f"{rule}.schema", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    if was.timeout != now.timeout:
        yield _timeout(rule, at, was, now, new)
    for name, before, after in (
        ("time mode", was.time_mode, now.time_mode),
        ("output mode", was.output_mode, now.output_mode),
    ):
        if before is not None and after is not None and before != after and was.time_mode is not None:
            change = f"{at}: the {name} was {before} and is {after}"
            spark = "It is on record with the state, and is compared."
            yield fatal(rule, change, spark, NEW_CHECKPOINT, "STATE_STORE_INVALID_CONFIG_AFTER_RESTART")


def _timeout(rule: str, at: str, was: ShapeOperator, now: ShapeOperator, new: Shape) -> ShapeFinding:
    change = f"{at}: the timeout was {was.timeout} and is {now.timeout}"
    if "NoTimeout" in (was.timeout, now.timeout):
        spark = "With a timeout each group's state has one more column."
        return fatal(f"{rule}.timeout", change, spark, NEW_CHECKPOINT, _since_4(new, VALUES_DIFFER))
    spark = "It runs: times that were set by one clock are judged by the other."
    return harmful(f"{rule}.timeout", change, spark, NEW_CHECKPOINT)
