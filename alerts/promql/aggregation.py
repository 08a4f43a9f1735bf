"""Aggregation operators: combine rows that share labels, or select some of them (`topk`, `bottomk`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alerts.matching.labels import label_hash
from alerts.promql import sums
from alerts.promql.annotations import Annotations, check_quantile
from alerts.promql.errors import OperationError
from alerts.promql.functions.relabeling import is_label_name
from alerts.promql.label_sets import Flags, Groups, Integers, LabelColumn
from alerts.promql.limits import EvaluationBudget
from alerts.promql.quantiles import quantiles
from alerts.promql.rows import SampleRows, go_float, no_rows
from alerts.promql.series import Floats
from alerts.promql.syntax.nodes import Aggregation


@dataclass(frozen=True, eq=False, slots=True)
class Stack:
    """Rows sorted by group; `starts` are the index of each group's first row."""

    labels: LabelColumn
    rows: SampleRows
    group: Integers
    starts: Integers

    @property
    def values(self) -> Floats:
        return self.rows.values

    @property
    def present(self) -> Flags:
        return self.rows.present

    def sum(self, values: Floats) -> Floats:
        """Sum of the present cells, by group and step."""
        return np.add.reduceat(np.where(self.present, values, 0.0), self.starts, axis=0)

    def counts(self) -> Integers:
        """Number of present cells, by group and step."""
        return np.add.reduceat(self.present, self.starts, axis=0, dtype=np.int64)

    def ordered(self, *keys: Floats | Flags) -> Integers:
        """Row indices sorted within each group and step by the keys (last key first); absent cells last."""
        group = np.broadcast_to(self.group[:, None], self.values.shape)
        return np.lexsort((*keys, ~self.present, group), axis=0)


def aggregate(
    node: Aggregation,
    rows: SampleRows,
    parameter: Floats | str | None,
    budget: EvaluationBudget,
    annotations: Annotations,
) -> SampleRows:
    """Evaluate an aggregation. `parameter`: one number per step, or the label name of `count_values`."""
    names = node.labels
    if isinstance(parameter, str):
        rows, names = _valued(rows, parameter, budget), names if node.without else (*names, parameter)
    if node.operator == "quantile" and node.parameter and isinstance(parameter, np.ndarray):
        check_quantile(parameter, node.parameter, annotations)
    if not len(rows):
        return no_rows(rows.steps)
    stack = _stacked(rows, rows.labels.without(names) if node.without else rows.labels.by(names))
    match node.operator, parameter:
        case "topk" | "bottomk", np.ndarray():
            return _chosen(stack, parameter, largest=node.operator == "topk")
        case "limitk", np.ndarray():
            return _first_rows(stack, parameter)
        case "limit_ratio", np.ndarray():
            return _sampled(stack, _ratios(parameter, node, annotations))
        case "quantile", np.ndarray():
            values = _quantile(stack, parameter)
        case _:
            values = _SIMPLE[node.operator](stack)
    return SampleRows(stack.labels, values, stack.counts() > 0)


def _stacked(rows: SampleRows, labels: LabelColumn) -> Stack:
    groups = Groups(labels)
    order = np.argsort(groups.of, kind="stable")
    group = groups.of[order]
    starts = np.searchsorted(group, np.arange(len(groups)))
    return Stack(labels.take(groups.first), rows.take(order), group, starts)


# -- one value for each group ------------------------------------------------------------------------


def _sum(stack: Stack) -> Floats:
    edges = [*stack.starts, len(stack.rows)]
    steps = stack.rows.steps

    def terms(index: int) -> Floats:
        group, step = divmod(index, steps)
        rows = slice(edges[group], edges[group + 1])
        return stack.values[rows, step][stack.present[rows, step]]

    return sums.exact_where_cancelled(stack.sum(stack.values), stack.sum(np.abs(stack.values)), terms)


def _average(stack: Stack) -> Floats:
    counts = stack.counts()

    def in_parts() -> Floats:
        return stack.sum(stack.values / counts[stack.group])

    return sums.mean(_sum(stack), counts, in_parts)


def _variance(stack: Stack) -> Floats:
    counts = stack.counts()
    # Relative to one value of the group, so that equal values have variance 0 without rounding errors.
    values = stack.values - _extreme(stack, np.fmin)[stack.group]
    mean = stack.sum(values) / counts
    return stack.sum((values - mean[stack.group]) ** 2) / counts


def _extreme(stack: Stack, operation: np.ufunc) -> Floats:
    """fmin and fmax: NaN only where there is no other value."""
    return operation.reduceat(np.where(stack.present, stack.values, np.nan), stack.starts, axis=0)


def _quantile(stack: Stack, q: Floats) -> Floats:
    order = stack.ordered(stack.values, ~np.isnan(stack.values))
    ordered = np.take_along_axis(stack.values, order, axis=0)
    return quantiles(q, ordered, stack.starts[:, None], np.maximum(stack.counts(), 1))


_SIMPLE: dict[str, Callable[[Stack], Floats]] = {
    "avg": _average,
    "count": lambda stack: stack.counts().astype(float),
    "count_values": lambda stack: stack.counts().astype(float),
    "group": lambda stack: np.ones((len(stack.starts), stack.rows.steps)),
    "max": lambda stack: _extreme(stack, np.fmax),
    "min": lambda stack: _extreme(stack, np.fmin),
    "stddev": lambda stack: np.sqrt(_variance(stack)),
    "stdvar": _variance,
    "sum": _sum,
}


# -- selection of rows, rows by value -----------------------------------------------------------------


def _chosen(stack: Stack, k: Floats, largest: bool) -> SampleRows:
    """The `k` largest (smallest) of each group with unchanged labels; NaN sorts last."""
    _require_whole(k)
    values = -stack.values if largest else stack.values
    order = stack.ordered(values, np.isnan(values))
    place = np.arange(len(stack.rows)) - stack.starts[stack.group]
    chosen = np.zeros(stack.present.shape, bool)
    np.put_along_axis(chosen, order, place[:, None] < np.trunc(k), axis=0)
    chosen &= stack.present
    if stack.rows.steps == 1:  # an instant vector is ordered by value
        return stack.rows.take(order[:, 0]).where(chosen[order[:, 0]])
    return stack.rows.where(chosen)


def _require_whole(k: Floats) -> None:
    if not (whole := np.abs(k) < 2**63).all():
        raise OperationError(f"Scalar value {go_float(k[~whole][0])} overflows int64")


def _first_rows(stack: Stack, k: Floats) -> SampleRows:
    """The first `k` of each group in the order of their labels, so that all steps choose the same series."""
    _require_whole(k)
    order = sorted(
        range(len(stack.rows)), key=lambda i: (stack.group[i], sorted(stack.rows.labels[i].items()))
    )
    present = stack.present[order]
    before: Integers = np.cumsum(present, axis=0, dtype=np.int64) - present
    before -= before[stack.starts][stack.group]
    return stack.rows.take(order).where(present & (before < np.trunc(k)))


def _ratios(ratio: Floats, node: Aggregation, annotations: Annotations) -> Floats:
    if np.isnan(ratio).any():
        raise OperationError("Ratio value NaN is NaN")
    capped = np.clip(ratio, -1.0, 1.0)
    assert node.parameter is not None
    for value, limit in dict(zip(ratio.tolist(), capped.tolist(), strict=True)).items():
        if value != limit:
            annotations.invalid_ratio(value, limit, node.parameter)
    return capped


def _sampled(stack: Stack, ratio: Floats) -> SampleRows:
    """The series whose hash is below `ratio`, or for a negative one those that its complement leaves out."""
    share = np.array([label_hash(labels) / 2**64 for labels in stack.rows.labels])[:, None]
    chosen = np.where(ratio >= 0, share < ratio, share >= 1 + ratio)
    return stack.rows.where(stack.present & chosen)


def _valued(rows: SampleRows, name: str, budget: EvaluationBudget) -> SampleRows:
    """One row per distinct value of a row, with the value as label `name`."""
    if not is_label_name(name):
        raise OperationError(f"invalid label name {name!r} in count_values()")
    numbers: list[int] = []
    lines: list[Flags] = []
    for own, values, present in zip(rows.labels, rows.values, rows.present, strict=True):
        distinct, of = np.unique(values[present].view(np.int64), return_inverse=True)  # -0 is not 0
        budget.hold(len(lines) + len(distinct), rows.steps)
        for index, value in enumerate(distinct.view(np.float64).tolist()):
            budget.tick()
            numbers.append(rows.labels.sets.number({**own, name: go_float(value)}))
            line = np.zeros(rows.steps, bool)
            line[present] = of == index
            lines.append(line)
    there = np.array(lines, bool).reshape(len(lines), rows.steps)
    labels = LabelColumn(rows.labels.sets, np.array(numbers, np.int64))
    return SampleRows(labels, np.zeros(there.shape), there)
