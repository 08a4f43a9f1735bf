"""Binary operators on scalars, on a vector and a scalar, and on two vectors matched by labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.errors import OperationError
from alerts.promql.limits import EvaluationBudget
from alerts.promql.rows import (
    Flags,
    Groups,
    Integers,
    SampleRows,
    by,
    drop_metric_name,
    no_rows,
    stacked,
    without,
)
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
        return stacked([left, extra]).merged()
    covered = _covered(left, right, key)
    return left.where(left.present & (covered if node.operator == "and" else ~covered))


def _covered(rows: SampleRows, others: SampleRows, key: Key) -> Flags:
    """Where a row's key is present on the other side."""
    groups = Groups(key(labels) for labels in others.labels)
    there = np.zeros((len(groups) + 1, rows.steps), bool)  # the last row: a key without partner
    np.logical_or.at(there, groups.of, others.present)
    return there[[groups.number.get(key(labels), -1) for labels in rows.labels]]


# -- matching ----------------------------------------------------------------------------------------


def matched(node: Binary, left: SampleRows, right: SampleRows, budget: EvaluationBudget) -> SampleRows:
    """Apply an arithmetic or comparison operator to two vectors, sample by sample with the matching partner."""
    matching = node.matching or Matching()
    left, right = _filled(matching, left, right)
    many, item = (right, left) if matching.group == "right" else (left, right)
    if not len(many) or not len(item):
        return no_rows(left.steps)
    key = _key(matching)
    keys = [key(labels) for labels in many.labels]
    partners = Groups(key(labels) for labels in item.labels)
    _refuse_many(partners, item, many, matching)
    pairs = of_many, of_one = _pairs(keys, partners, budget, left.steps)
    met = many.present[of_many] & item.present[of_one]
    if matching.group is None:
        _refuse_twice(Groups(keys[i] for i in of_many), met)
    result_labels = _result_labels(node, matching)
    labels = [result_labels(many.labels[i], item.labels[j]) for i, j in zip(of_many, of_one, strict=True)]
    if matching.group is not None:
        _refuse_ambiguous(labels, met)
    values, holds = _combined(node, many, item, pairs, matching.group == "right")
    present = met & holds
    return SampleRows(labels, values, np.broadcast_to(present, values.shape)).where(present).merged()


def _filled(matching: Matching, left: SampleRows, right: SampleRows) -> tuple[SampleRows, SampleRows]:
    """Both sides with the samples that `fill`, `fill_left` and `fill_right` add."""
    reduce = by(matching.labels) if matching.on else without(matching.labels)
    return (
        left if matching.fill_left is None else _with_missing(left, right, reduce, matching.fill_left),
        right if matching.fill_right is None else _with_missing(right, left, reduce, matching.fill_right),
    )


def _with_missing(
    rows: SampleRows, others: SampleRows, reduce: Callable[[Labels], Labels], value: float
) -> SampleRows:
    """`rows` with `value` wherever a match group has samples only on the other side."""
    added = [reduce(labels) for labels in others.labels]
    groups = Groups(frozenset(labels.items()) for labels in added)
    wanted = groups.count(others.present) > 0
    own = Groups(frozenset(reduce(labels).items()) for labels in rows.labels)
    there = own.count(rows.present) > 0
    for key, group in groups.number.items():
        if (mine := own.number.get(key)) is not None:
            wanted[group] &= ~there[mine]
    labels = [added[first] for first in groups.first]
    return stacked([rows, SampleRows(labels, np.full(wanted.shape, value), wanted).where(wanted)])


def _key(matching: Matching) -> Key:
    """The function from labels to match key."""
    if matching.on:
        names = matching.labels
        return lambda labels: tuple(labels.get(name, "") for name in names)
    strip = without(matching.labels)
    return lambda labels: frozenset(strip(labels).items())


def _refuse_many(partners: Groups, rows: SampleRows, many: SampleRows, matching: Matching) -> None:
    """Raise where the one side has duplicate series for a match group that the other side has."""
    if len(partners) == len(rows):
        return
    meet = (partners.count(rows.present) > 1) & many.present.any(axis=0)
    if meet.any():
        group, step = (int(index[0]) for index in np.nonzero(meet))
        first, second = np.flatnonzero((partners.of == group) & rows.present[:, step])[:2]
        matched = (by if matching.on else without)(matching.labels)(rows.labels[first])
        side = "left" if matching.group == "right" else "right"
        raise OperationError(
            f"found duplicate series for the match group {_written(matched)} on the {side} hand-side of the"
            f" operation: [{_written(rows.labels[second])}, {_written(rows.labels[first])}];many-to-many matching"
            " not allowed: matching labels must be unique on one side"
        )


def _refuse_twice(groups: Groups, met: Flags) -> None:
    """Raise where two series of the many side meet one; also where a comparison would drop one of them."""
    if len(groups) < len(met) and groups.count(met).max(initial=0) > 1:
        raise OperationError(
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        )


def _refuse_ambiguous(labels: Sequence[Labels], met: Flags) -> None:
    groups = Groups(frozenset(own.items()) for own in labels)
    if len(groups) < len(labels) and groups.count(met).max(initial=0) > 1:
        raise OperationError("multiple matches for labels: grouping labels must ensure unique matches")


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
    """The values of all pairs, and which of them a comparison keeps."""
    of_many, of_one = pairs
    sides = [many.values[of_many], rows.values[of_one]]
    first, second = reversed(sides) if swapped else sides
    everywhere = np.ones(first.shape, bool)
    if node.operator in ARITHMETIC:
        return ARITHMETIC[node.operator](first, second), everywhere
    holds = COMPARISON[node.operator](first, second)
    return (holds.astype(float), everywhere) if node.as_bool else (first, holds)


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
