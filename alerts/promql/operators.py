"""Binary operators on scalars, on a vector and a scalar, and on two vectors matched by labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.errors import OperationError
from alerts.promql.label_sets import Flags, Groups, Integers, LabelColumn
from alerts.promql.limits import EvaluationBudget, paced
from alerts.promql.rows import SampleRows, no_rows, stacked
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
    matching = node.matching or Matching()
    if node.operator == "or":
        extra = right.where(right.present & ~_covered(right, left, matching))
        return stacked(left, extra).merged()
    covered = _covered(left, right, matching)
    return left.where(left.present & (covered if node.operator == "and" else ~covered))


def _covered(rows: SampleRows, others: SampleRows, matching: Matching) -> Flags:
    """Where a row's match group is present on the other side."""
    groups = Groups(_reduced(others.labels, matching))
    there = np.zeros((len(groups) + 1, rows.steps), bool)  # the last row: a group without partner
    np.logical_or.at(there, groups.of, others.present)
    return there[groups.find(_reduced(rows.labels, matching))]


# -- matching ----------------------------------------------------------------------------------------


def matched(node: Binary, left: SampleRows, right: SampleRows, budget: EvaluationBudget) -> SampleRows:
    """Apply an arithmetic or comparison operator to two vectors, sample by sample with the matching partner."""
    matching = node.matching or Matching()
    left, right = _filled(matching, left, right)
    many, item = (right, left) if matching.group == "right" else (left, right)
    if not len(many) or not len(item):
        return no_rows(left.steps)
    keys = _reduced(many.labels, matching)
    partners = Groups(_reduced(item.labels, matching))
    _refuse_many(partners, item, many, matching)
    pairs = of_many, of_one = _pairs(partners.find(keys), partners, budget, left.steps)
    met = many.present[of_many] & item.present[of_one]
    if matching.group is None:
        _refuse_twice(keys.repeated(of_many), met)
    labels = _result_labels(node, matching, many, item, pairs)
    if matching.group is not None:
        _refuse_ambiguous(labels, met)
    values, holds = _combined(node, many, item, pairs, matching.group == "right")
    present = met & holds
    return SampleRows(labels, values, np.broadcast_to(present, values.shape)).where(present).merged()


def _reduced(labels: LabelColumn, matching: Matching) -> LabelColumn:
    """The match group of each row."""
    return labels.by(matching.labels) if matching.on else labels.without(matching.labels)


def _filled(matching: Matching, left: SampleRows, right: SampleRows) -> tuple[SampleRows, SampleRows]:
    """Both sides with the samples that `fill`, `fill_left` and `fill_right` add."""
    return (
        left if matching.fill_left is None else _with_missing(left, right, matching, matching.fill_left),
        right if matching.fill_right is None else _with_missing(right, left, matching, matching.fill_right),
    )


def _with_missing(rows: SampleRows, others: SampleRows, matching: Matching, value: float) -> SampleRows:
    """`rows` with `value` wherever a match group has samples only on the other side."""
    added = _reduced(others.labels, matching)
    groups = Groups(added)
    wanted = groups.count(others.present) > 0
    own = Groups(_reduced(rows.labels, matching))
    there = np.vstack([own.count(rows.present) > 0, np.zeros((1, rows.steps), bool)])
    wanted &= ~there[own.find(added.take(groups.first))]
    labels = added.take(groups.first)
    return stacked(rows, SampleRows(labels, np.full(wanted.shape, value), wanted).where(wanted))


def _refuse_many(partners: Groups, rows: SampleRows, many: SampleRows, matching: Matching) -> None:
    """Raise where the one side has duplicate series for a match group that the other side has."""
    if len(partners) == len(rows):
        return
    meet = (partners.count(rows.present) > 1) & many.present.any(axis=0)
    if meet.any():
        group, step = (int(index[0]) for index in np.nonzero(meet))
        first, second = np.flatnonzero((partners.of == group) & rows.present[:, step])[:2]
        matched = _reduced(rows.labels[first : first + 1], matching)[0]
        side = "left" if matching.group == "right" else "right"
        raise OperationError(
            f"found duplicate series for the match group {_written(matched)} on the {side} hand-side of the"
            f" operation: [{_written(rows.labels[second])}, {_written(rows.labels[first])}];many-to-many matching"
            " not allowed: matching labels must be unique on one side"
        )


def _refuse_twice(keys: LabelColumn, met: Flags) -> None:
    """Raise where two series of the many side meet one; also where a comparison would drop one of them."""
    groups = Groups(keys)
    if len(groups) < len(met) and groups.count(met).max(initial=0) > 1:
        raise OperationError(
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        )


def _refuse_ambiguous(labels: LabelColumn, met: Flags) -> None:
    groups = Groups(labels)
    if len(groups) < len(labels) and groups.count(met).max(initial=0) > 1:
        raise OperationError("multiple matches for labels: grouping labels must ensure unique matches")


def _pairs(group: Integers, partners: Groups, budget: EvaluationBudget, steps: int) -> Pairs:
    """All pairs of rows of one group, as row indices of the many side (`group`: of each row) and of the one side."""
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


def _result_labels(
    node: Binary,
    matching: Matching,
    many: SampleRows,
    item: SampleRows,
    pairs: Pairs,
) -> LabelColumn:
    """Labels of each pair from those of the many side and the one side."""
    of_many, of_one = pairs
    kept = many.labels
    if node.as_bool or node.operator in ARITHMETIC:
        kept = kept.without_name()
    if matching.group is None:
        kept = kept.by(matching.labels) if matching.on else kept.dropping(matching.labels)
    found = kept.repeated(of_many)
    return _including(found, item.labels.repeated(of_one), matching.include) if matching.include else found


def _including(labels: LabelColumn, item: LabelColumn, names: Sequence[str]) -> LabelColumn:
    """The labels with these of the one side, which replace their own."""
    numbers = []
    for index in paced(range(len(labels))):
        own = labels[index]
        numbers.append(labels.sets.number({**own, **{name: item[index].get(name, "") for name in names}}))
    return LabelColumn(labels.sets, np.array(numbers, np.int64))


def _written(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
