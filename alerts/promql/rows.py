"""The instant vector of every step at once: one row a series, one column a step.

All operators work on these, so an instant query is a range query of one column. A cell is a sample only
where `present`; NaN cannot say that, being a value of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels
from alerts.promql.errors import OperationError
from alerts.promql.series import METRIC_NAME, Floats

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class SampleRows:
    """`values` and `present` have the shape (rows, steps); what stands in absent cells means nothing."""

    labels: Sequence[Labels]
    values: Floats
    present: Flags

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def steps(self) -> int:
        return self.values.shape[1]

    def take(self, rows: Sequence[int] | Integers) -> SampleRows:
        """Some rows, in this order."""
        index = np.asarray(rows, np.int64)
        return SampleRows([self.labels[i] for i in index], self.values[index], self.present[index])

    def where(self, present: Flags) -> SampleRows:
        """Only these cells, and only rows that still have one."""
        narrowed = replace(self, present=present)
        left = present.any(axis=1)
        return narrowed if left.all() else narrowed.take(np.flatnonzero(left))

    def relabeled(self, change: Callable[[Labels], Labels]) -> SampleRows:
        """With other labels. Rows that become one must not meet at any step."""
        return replace(self, labels=[change(labels) for labels in self.labels]).merged()

    def without_name(self) -> SampleRows:
        return self.relabeled(drop_metric_name)

    def merged(self) -> SampleRows:
        """Every label set once: rows of the same labels are joined, unless they are there at one time."""
        keys = [frozenset(labels.items()) for labels in self.labels]
        if len(set(keys)) == len(keys):
            return self
        groups = Groups(keys)
        if groups.count(self.present).max(initial=0) > 1:
            raise OperationError("vector cannot contain metrics with the same labelset")
        first = self.take(groups.first)
        for row, group in enumerate(groups.of):
            here = self.present[row]
            first.values[group, here] = self.values[row, here]
            first.present[group] |= here
        return first


class Groups:
    """Rows put together by a key: `of` is each row's group, `first` the first row of each group."""

    def __init__(self, keys: Iterable[Hashable]):
        self.number: dict[Hashable, int] = {}
        self.of = np.array([self.number.setdefault(key, len(self.number)) for key in keys], np.int64)
        self.first = np.unique(self.of, return_index=True)[1]

    def __len__(self) -> int:
        return len(self.number)

    def count(self, present: Flags) -> Integers:
        """How many rows of each group are present, at each step."""
        total = np.zeros((len(self), present.shape[1]), np.int64)
        np.add.at(total, self.of, present)
        return total


def no_rows(steps: int) -> SampleRows:
    return SampleRows([], np.zeros((0, steps)), np.zeros((0, steps), bool))


def single_row(labels: Labels, values: Floats, present: Flags | None = None) -> SampleRows:
    """One row."""
    everywhere = np.ones(values.shape, bool)
    return SampleRows([labels], values[None, :], (everywhere if present is None else present)[None, :])


def drop_metric_name(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if name != METRIC_NAME}


def by(names: Sequence[str]) -> Callable[[Labels], Labels]:
    """Keeps these labels only."""
    return lambda labels: {name: labels[name] for name in names if name in labels}


def without(names: Sequence[str]) -> Callable[[Labels], Labels]:
    """Drops these labels, and the metric's name."""
    dropped = {*names, METRIC_NAME}
    return lambda labels: {name: value for name, value in labels.items() if name not in dropped}
