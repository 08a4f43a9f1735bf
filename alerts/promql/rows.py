"""Instant vectors of all steps as arrays: one row per series, one column per step.

All operators work on these; an instant query is a range query with one column. A cell is a sample only where
`present` is set, since NaN is a valid value.
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
    """`values` and `present` have shape (rows, steps); values of absent cells are undefined."""

    labels: Sequence[Labels]
    values: Floats
    present: Flags

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.values.shape[1]

    def take(self, rows: Sequence[int] | Integers) -> SampleRows:
        """These rows, in this order."""
        index = np.asarray(rows, np.int64)
        return SampleRows([self.labels[i] for i in index], self.values[index], self.present[index])

    def where(self, present: Flags) -> SampleRows:
        """Keep only these cells, and only rows that still have one."""
        narrowed = replace(self, present=present)
        left = present.any(axis=1)
        return narrowed if left.all() else narrowed.take(np.flatnonzero(left))

    def relabeled(self, change: Callable[[Labels], Labels]) -> SampleRows:
        """Change the labels and merge equal ones. Raises OperationError where merged rows overlap."""
        return replace(self, labels=[change(labels) for labels in self.labels]).merged()

    def without_name(self) -> SampleRows:
        """Drop the metric name."""
        return self.relabeled(drop_metric_name)

    def merged(self) -> SampleRows:
        """Merge rows with equal labels. Raises OperationError where they overlap."""
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
    """Groups rows by a key: `of` is each row's group, `first` the first row of each group."""

    def __init__(self, keys: Iterable[Hashable]):
        self.number: dict[Hashable, int] = {}
        self.of = np.array([self.number.setdefault(key, len(self.number)) for key in keys], np.int64)
        self.first = np.unique(self.of, return_index=True)[1]

    def __len__(self) -> int:
        return len(self.number)

    def count(self, present: Flags) -> Integers:
        """Number of present rows by group and step."""
        total = np.zeros((len(self), present.shape[1]), np.int64)
        np.add.at(total, self.of, present)
        return total


def no_rows(steps: int) -> SampleRows:
    """An empty vector at each step."""
    return SampleRows([], np.zeros((0, steps)), np.zeros((0, steps), bool))


def single_row(labels: Labels, values: Floats, present: Flags | None = None) -> SampleRows:
    """A vector of one row, present everywhere by default."""
    everywhere = np.ones(values.shape, bool)
    return SampleRows([labels], values[None, :], (everywhere if present is None else present)[None, :])


def stacked(parts: Sequence[SampleRows]) -> SampleRows:
    """The rows of several vectors with the same steps, one after the other."""
    return SampleRows(
        [labels for part in parts for labels in part.labels],
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


def drop_metric_name(labels: Labels) -> Labels:
    """The labels without `__name__`."""
    return {name: value for name, value in labels.items() if name != METRIC_NAME}


def by(names: Sequence[str]) -> Callable[[Labels], Labels]:
    """Return a function that keeps only these labels."""
    return lambda labels: {name: labels[name] for name in names if name in labels}


def without(names: Sequence[str]) -> Callable[[Labels], Labels]:
    """Return a function that drops these labels and the metric name."""
    dropped = {*names, METRIC_NAME}
    return lambda labels: {name: value for name, value in labels.items() if name not in dropped}
