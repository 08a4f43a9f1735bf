"""Label sets as numbers, so that operators group, join and drop labels with arrays of integers.

`LabelSets` numbers each distinct label set once and remembers what a change of labels makes of it: a rule that is
evaluated again asks for the same changes of the same label sets. `LabelColumn` is a sequence of label sets by their
numbers. A number holds that of the labels without the metric name in its low 32 bits and that of the name above
(0: no name). An empty label value equals a missing label.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.limits import paced
from alerts.promql.series import METRIC_NAME

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Change = Callable[[Labels], Labels]
_NAME_BITS = 32
_LABELS = (1 << _NAME_BITS) - 1
_UNKNOWN = -1
_MET = {"": "met"}


class LabelSets:
    """Numbers of label sets. Grows only; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sets: list[Labels] = []
        self._numbers: dict[int, int] = {}  # by hash, the next free key where two label sets share one
        self._names: dict[str, int] = {}
        self._texts: list[str] = []
        self._changed: dict[Hashable, Integers] = {}
        self._named("")
        self._number({})

    def __len__(self) -> int:
        return len(self._sets)

    def number(self, labels: Labels) -> int:
        """The number of a label set, which may have a metric name."""
        name = labels.get(METRIC_NAME, "")
        bare = {key: value for key, value in labels.items() if value and key != METRIC_NAME}
        with self._lock:
            return self._named(name) << _NAME_BITS | self._number(bare)

    def numbered(self, name: str, bare: Labels) -> int:
        """The number of a metric name with labels that have neither a name nor an empty value; they are kept."""
        with self._lock:
            return self._named(name) << _NAME_BITS | self._number(bare)

    def name_number(self, name: str) -> int:
        """The number of a metric name."""
        with self._lock:
            return self._named(name)

    def labels(self, number: int) -> Labels:
        """The label set of a number."""
        name, bare = self._texts[number >> _NAME_BITS], self._sets[number & _LABELS]
        return {METRIC_NAME: name, **bare} if name else bare

    def changed(self, numbers: Integers, key: Hashable, change: Change) -> Integers:
        """The numbers of the label sets that `change` makes of these without their names; `key` stands for it."""
        bare = numbers & _LABELS
        with self._lock:
            known = self._changed.get(key)
            if known is None or len(known) < len(self._sets):
                more = np.full(max(64, 2 * len(self._sets)), _UNKNOWN)
                more[: 0 if known is None else len(known)] = [] if known is None else known
                known = self._changed[key] = more
            found = known[bare]
            if (found == _UNKNOWN).any():
                for number in np.unique(bare[found == _UNKNOWN]).tolist():
                    known[number] = self._number(change(self._sets[number]))
                found = known[bare]
        return found

    def _named(self, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self._texts)
            self._texts.append(name)
        return number

    def _number(self, bare: Labels) -> int:
        key = hash(frozenset(bare.items()))
        while (number := self._numbers.get(key)) is not None:
            if self._sets[number] == bare:
                return number
            key += 1
        self._numbers[key] = len(self._sets)
        self._sets.append(bare)
        return len(self._sets) - 1


class LabelColumn(Sequence[Labels]):
    """Label sets by their numbers. `unique`: known to be distinct even without their names."""

    __slots__ = ("_unique", "numbers", "sets")

    def __init__(self, sets: LabelSets, numbers: Integers, unique: bool = False):
        self.sets, self.numbers, self._unique = sets, numbers, unique or len(numbers) < 2

    @classmethod
    def of(cls, labels: Iterable[Labels], sets: LabelSets | None = None) -> LabelColumn:
        """Number these label sets, in `sets` if given."""
        sets = LabelSets() if sets is None else sets
        return cls(sets, np.array([sets.number(own) for own in paced(labels)], np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Labels: ...
    @overload
    def __getitem__(self, index: slice) -> LabelColumn: ...
    def __getitem__(self, index: int | slice) -> Labels | LabelColumn:
        if isinstance(index, slice):
            return LabelColumn(self.sets, self.numbers[index], self._unique)
        return self.sets.labels(int(self.numbers[index]))

    def take(self, index: Integers | Flags) -> LabelColumn:
        """These rows, each at most once, in this order."""
        return LabelColumn(self.sets, self.numbers[index], self._unique)

    def repeated(self, index: Integers) -> LabelColumn:
        """These rows, in this order."""
        return LabelColumn(self.sets, self.numbers[index])

    def joined(self, other: LabelColumn) -> LabelColumn:
        """Both, one after the other."""
        if not len(self) or not len(other):
            return self if len(self) else other
        return LabelColumn(self.sets, np.concatenate([self.numbers, other.within(self.sets).numbers]))

    def within(self, sets: LabelSets) -> LabelColumn:
        """The same label sets with their numbers in `sets`."""
        if self.sets is sets:
            return self
        numbers = np.array([sets.number(labels) for labels in self], np.int64)
        return LabelColumn(sets, numbers, self._unique)

    # -- changes -----------------------------------------------------------------------------------

    def changed(self, key: Hashable, change: Change) -> LabelColumn:
        """The labels without names, changed; `key` stands for the change."""
        return LabelColumn(self.sets, self.sets.changed(self.numbers, key, change))

    def relabeled(self, change: Change) -> LabelColumn:
        """The labels with their names, changed."""
        numbers, inverse = np.unique(self.numbers, return_inverse=True)
        new = np.array(
            [self.sets.number(change(self.sets.labels(own))) for own in numbers.tolist()], np.int64
        )
        return LabelColumn(self.sets, new[inverse] if len(new) else numbers)

    def without_name(self) -> LabelColumn:
        """The labels without the metric name."""
        return LabelColumn(self.sets, self.numbers & _LABELS, self._unique)

    def by(self, names: Sequence[str]) -> LabelColumn:
        """Only these labels."""
        chosen = frozenset(names)
        found = self.changed(("by", chosen), lambda labels: _only(labels, chosen))
        if METRIC_NAME not in chosen:
            return found
        return LabelColumn(self.sets, found.numbers | (self.numbers & ~_LABELS))

    def without(self, names: Sequence[str]) -> LabelColumn:
        """The labels without these and without the metric name."""
        dropped = frozenset(names)
        if not dropped:
            return self.without_name()
        return self.changed(("without", dropped), lambda labels: _all_but(labels, dropped))

    def dropping(self, names: Sequence[str]) -> LabelColumn:
        """The labels without these; the metric name stays unless it is named."""
        rest = self.without(names)
        if METRIC_NAME in names:
            return rest
        return LabelColumn(self.sets, rest.numbers | (self.numbers & ~_LABELS), rest._unique)

    def matching(self, matchers: tuple[Matcher, ...]) -> Flags:
        """Which label sets meet all matchers, none of which is for the metric name."""
        if not matchers:
            return np.ones(len(self), bool)
        key = ("matching", matchers)
        return self.changed(key, lambda own: _MET if matches(matchers, own) else {}).numbers > 0

    # -- groups ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The distinct metric names."""
        first = np.unique(self.numbers >> _NAME_BITS, return_index=True)[1]
        return [self[index].get(METRIC_NAME, "") for index in first.tolist()]

    def distinct(self) -> bool:
        """Whether no label set occurs twice."""
        return self._unique or len(Groups(self).first) == len(self)

    def known_distinct(self) -> LabelColumn:
        """The same column, known to be distinct even without the names."""
        return LabelColumn(self.sets, self.numbers, True)


class Groups:
    """Rows grouped by label set: `of` is each row's group, `first` the first row of each group."""

    def __init__(self, column: LabelColumn):
        self._column = column
        numbers = _compact(column.numbers)
        places = np.empty(int(numbers.max(initial=0)) + 1, np.int64)
        rows = np.arange(len(numbers))
        places[numbers[::-1]] = rows[::-1]  # the last assignment is that of the first row
        first = places[numbers]
        leads = first == rows
        self.first: Integers = np.flatnonzero(leads)
        self.of: Integers = (np.cumsum(leads) - 1)[first]

    def __len__(self) -> int:
        return len(self.first)

    def count(self, present: Flags) -> Integers:
        """Number of present rows by group and step."""
        total = np.zeros((len(self), present.shape[1]), np.int64)
        np.add.at(total, self.of, present)
        return total

    def find(self, column: LabelColumn) -> Integers:
        """The group with the label set of each row of another column, -1 where there is none."""
        if not len(self) or not len(column):
            return np.full(len(column), -1)
        numbers = np.concatenate([self._column.numbers, column.within(self._column.sets).numbers])
        compact = _compact(numbers)
        places = np.full(int(compact.max(initial=0)) + 1, -1)
        places[compact[: len(self._column)]] = self.of
        return places[compact[len(self._column) :]]


def by_metric(numbers: Integers, chosen: Flags) -> dict[int, Integers]:
    """The indices of the chosen numbers by the number of their metric name, in their order."""
    index = np.flatnonzero(chosen)
    names = numbers[index] >> _NAME_BITS
    order = np.argsort(names.astype(np.int16) if names.max(initial=0) < 1 << 15 else names, kind="stable")
    found, starts = np.unique(names[order], return_index=True)
    return dict(zip(found.tolist(), np.split(index[order], starts[1:]), strict=True)) if len(found) else {}


def has_name(numbers: Integers, name: int) -> Flags:
    """Which numbers have the metric name of this number."""
    found: Flags = numbers >> _NAME_BITS == name
    return found


def bare_numbers(numbers: Integers) -> Integers:
    """The numbers of the labels without their names."""
    return numbers & _LABELS


def _compact(numbers: Integers) -> Integers:
    """Numbers small enough to be indices, equal where the given ones are."""
    names = numbers >> _NAME_BITS
    if not len(names) or (names == names[0]).all():
        return numbers & _LABELS
    found: Integers = np.unique(numbers, return_inverse=True)[1]
    return found


def _only(labels: Labels, names: frozenset[str]) -> Labels:
    return {name: value for name, value in labels.items() if name in names}


def _all_but(labels: Labels, names: frozenset[str]) -> Labels:
    return {name: value for name, value in labels.items() if name not in names}
