"""Binary operators on scalars, on a vector and a scalar, and on two vectors matched by labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.errors import OperationError
from alerts.promql.limits import EvaluationBudget
from alerts.promql.rows import Flags, Groups, Integers, SampleRows, by, drop_metric_name, no_rows, without
from alerts.promql.series import Floats
from alerts.promql.syntax.nodes import Binary, Matching

ARITHMETIC: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARISON: dict[str, np.ufunc] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
Key = Callable[[Labels], Hashable]
Pairs = tuple[Integers, Integers]


def scalars(node: Binary, left: Floats, right: Floats) -> Floats:
    """Apply an operator to two scalars; a comparison gives 1 or 0."""
    if node.operator in ARITHMETIC:
        return ARITHMETIC[node.operator](left, right)
    return COMPARISON[node.operator](left, right).astype(float)


def with_scalar(node: Binary, rows: SampleRows, scalar: Floats, swapped: bool) -> SampleRows:
    """Apply an operator to a vector and a scalar; `swapped`: the scalar is on the left. A comparison filters."""
    sides = (scalar, rows.values) if swapped else (rows.values, scalar)
    if node.operator in ARITHMETIC:
        return SampleRows(rows.labels, ARITHMETIC[node.operator](*sides), rows.present).without_name()
    holds = COMPARISON[node.operator](*sides)
    if node.as_bool:
        return SampleRows(rows.labels, holds.astype(float), rows.present).without_name()
    return rows.where(rows.present & holds)


# -- sets --------------------------------------------------------------------------------------------


def sets(node: Binary, left: SampleRows, right: SampleRows) -> SampleRows:
    """Set operators `and`, `unless` and `or`, at each step."""
    key = _key(node.matching or Matching())
    if node.operator == "or":
        extra = right.where(right.present & ~_covered(right, left, key))
        return _stacked([left, extra]).merged()
    covered = _covered(left, right, key)
    return left.where(left.present & (covered if node.operator == "and" else ~covered))


def _covered(rows: SampleRows, others: SampleRows, key: Key) -> Flags:
    """Where a row's key is present on the other side."""
    groups = Groups(key(labels) for labels in others.labels)
    there = np.zeros((len(groups) + 1, rows.steps), bool)  # the last row: a key without partner
    np.logical_or.at(there, groups.of, others.present)
    return there[[groups.number.get(key(labels), -1) for labels in rows.labels]]


def _stacked(parts: Sequence[SampleRows]) -> SampleRows:
    return SampleRows(
        [labels for part in parts for labels in part.labels],
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.present for part in parts]),
    )


# -- matching ----------------------------------------------------------------------------------------


def matched(node: Binary, left: SampleRows, right: SampleRows, budget: EvaluationBudget) -> SampleRows:
    """Apply an arithmetic or comparison operator to two vectors, sample by sample with the matching partner."""
    matching = node.matching or Matching()
    many, item = (right, left) if matching.group == "right" else (left, right)
    if not len(many) or not len(item):
        return no_rows(left.steps)
    key = _key(matching)
    keys = [key(labels) for labels in many.labels]
    partners = Groups(key(labels) for labels in item.labels)
    _refuse_many(partners, item, many)
    pairs = of_many, of_one = _pairs(keys, partners, budget, left.steps)
    values, present = _combined(node, many, item, pairs, matching.group == "right")
    if matching.group is None:
        _refuse_twice(Groups(keys[i] for i in of_many), present)
    result_labels = _result_labels(node, matching)
    labels = [result_labels(many.labels[i], item.labels[j]) for i, j in zip(of_many, of_one, strict=True)]
    result = SampleRows(labels, values, np.broadcast_to(present, values.shape)).where(present)
    return _unambiguous(result, matching)


def _key(matching: Matching) -> Key:
    """The function from labels to match key."""
    if matching.on:
        names = matching.labels
        return lambda labels: tuple(labels.get(name, "") for name in names)
    strip = without(matching.labels)
    return lambda labels: frozenset(strip(labels).items())


def _refuse_many(partners: Groups, rows: SampleRows, many: SampleRows) -> None:
    """Raise where the one side has duplicate series for a match group that the other side has."""
    if len(partners) == len(rows):
        return
    meet = (partners.count(rows.present) > 1) & many.present.any(axis=0)
    if meet.any():
        group = int(np.flatnonzero(meet.any(axis=1))[0])
        raise OperationError(
            f"found duplicate series for the match group of {_written(rows.labels[partners.first[group]])};"
            " many-to-many matching not allowed: matching labels must be unique on one side"
        )


def _refuse_twice(groups: Groups, present: Flags) -> None:
    if len(groups) < len(present) and groups.count(present).max(initial=0) > 1:
        raise OperationError(
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        )


def _unambiguous(rows: SampleRows, matching: Matching) -> SampleRows:
    try:
        return rows.merged()
    except OperationError:
        if matching.group is None:
            raise
        message = "multiple matches for labels: grouping labels must ensure unique matches"
        raise OperationError(message) from None


def _pairs(keys: Sequence[Hashable], partners: Groups, budget: EvaluationBudget, steps: int) -> Pairs:
    """All pairs of rows with equal keys, as row indices of the many side and of the one side."""
    group = np.array([partners.number.get(key, -1) for key in keys], np.int64)
    sizes = np.append(np.bincount(partners.of, minlength=len(partners)), 0)  # the last: a key without partner
    counts = sizes[group]
    budget.hold(int(counts.sum()), steps)
    of_many = np.repeat(np.arange(len(group)), counts)
    within = np.arange(len(of_many)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.cumsum(sizes) - sizes
    by_group = np.argsort(partners.of, kind="stable")
    return of_many, by_group[begin[group[of_many]] + within]


def _combined(
    node: Binary, many: SampleRows, rows: SampleRows, pairs: Pairs, swapped: bool
) -> tuple[Floats, Flags]:
    of_many, of_one = pairs
    sides = [many.values[of_many], rows.values[of_one]]
    first, second = reversed(sides) if swapped else sides
    present = many.present[of_many] & rows.present[of_one]
    if node.operator in ARITHMETIC:
        return ARITHMETIC[node.operator](first, second), present
    holds = COMPARISON[node.operator](first, second)
    return (holds.astype(float), present) if node.as_bool else (first, present & holds)


def _result_labels(node: Binary, matching: Matching) -> Callable[[Labels, Labels], Labels]:
    """Labels of a result from those of the many side and the one side."""
    keep: Callable[[Labels], Labels] = dict
    if node.as_bool or node.operator in ARITHMETIC:
        keep = drop_metric_name
    if matching.group is None:
        keep = _one_to_one(keep, matching)

    def labels(many: Labels, item: Labels) -> Labels:
        result = dict(keep(many))
        for name in matching.include:
            result[name] = item.get(name, "")
        return {name: value for name, value in result.items() if value} if matching.include else result

    return labels


def _one_to_one(keep: Callable[[Labels], Labels], matching: Matching) -> Callable[[Labels], Labels]:
    if matching.on:
        chosen = by(matching.labels)
        return lambda labels: chosen(keep(labels))
    dropped = frozenset(matching.labels)
    return lambda labels: {name: value for name, value in keep(labels).items() if name not in dropped}


def _written(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
