"""Instant vectors of all steps as arrays: one row per series, one column per step.

All operators work on these; an instant query is a range query with one column. A cell is a sample only where
`present` is set, since NaN is a valid value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from alerts.matching.labels import Labels
from alerts.promql.errors import OperationError
from alerts.promql.label_sets import Flags, Groups, Integers, LabelColumn
from alerts.promql.series import Floats


@dataclass(frozen=True, eq=False, slots=True)
class SampleRows:
    """`values` and `present` have shape (rows, steps); values of absent cells are undefined."""

    labels: LabelColumn
    values: Floats
    present: Flags

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.values.shape[1]

    def take(self, rows: Sequence[int] | Integers) -> SampleRows:
        """These rows, each at most once, in this order."""
        index = np.asarray(rows, np.int64)
        return SampleRows(self.labels.take(index), self.values[index], self.present[index])

    def where(self, present: Flags) -> SampleRows:
        """Keep only these cells, and only rows that still have one."""
        narrowed = replace(self, present=present)
        left = present.any(axis=1)
        return narrowed if left.all() else narrowed.take(np.flatnonzero(left))

    def with_labels(self, labels: LabelColumn) -> SampleRows:
        """Change the labels and merge equal ones. Raises OperationError where merged rows overlap."""
        return SampleRows(labels, self.values, self.present).merged()

    def without_name(self) -> SampleRows:
        """Drop the metric name."""
        return self.with_labels(self.labels.without_name())

    def merged(self) -> SampleRows:
        """Merge rows with equal labels. Raises OperationError where they overlap."""
        if self.labels.distinct():
            return self
        groups = Groups(self.labels)
        if groups.count(self.present).max(initial=0) > 1:
            raise OperationError("vector cannot contain metrics with the same labelset")
        first = self.take(groups.first)
        for row, group in enumerate(groups.of):
            here = self.present[row]
            first.values[group, here] = self.values[row, here]
            first.present[group] |= here
        return first


def no_rows(steps: int) -> SampleRows:
    """An empty vector at each step."""
    return SampleRows(LabelColumn.of([]), np.zeros((0, steps)), np.zeros((0, steps), bool))


def single_row(labels: Labels, values: Floats, present: Flags | None = None) -> SampleRows:
    """A vector of one row, present everywhere by default."""
    everywhere = np.ones(values.shape, bool)
    shown = (everywhere if present is None else present)[None, :]
    return SampleRows(LabelColumn.of([labels]), values[None, :], shown)


def stacked(first: SampleRows, *others: SampleRows) -> SampleRows:
    """The rows of several vectors with the same steps, one after the other."""
    labels = first.labels
    for other in others:
        labels = labels.joined(other.labels)
    parts = (first, *others)
    return SampleRows(
        labels,
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.present for part in parts]),
    )


def go_float(value: float) -> str:
    """As Go's FormatFloat(v, 'f', -1): the shortest digits that round-trip, without exponent."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return np.format_float_positional(value, trim="-")
