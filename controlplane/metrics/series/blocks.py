"""The series of one metric as one array: a row per sampled slot, a column per series, NaN for no sample.

Slots are appended, so that a range of time is a slice of the array; slots that were not sampled have no row, which
distinguishes them from slots in which a series was absent. A series is found by the number of its label set. Not
thread-safe: `grid` locks. Arrays that were read stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.dense import DenseSeries
from alerts.promql.label_sets import LabelColumn, LabelSets
from alerts.promql.limits import paced
from alerts.promql.series import METRIC_NAME, STALE, Floats, Series, as_samples, is_absent

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
#: Label sets without the name, the slots that were sampled, values of the shape (series, slots).
Content = tuple[Sequence[Labels], Integers, Floats]
#: Selections that are cached; rules and pages repeat the same few.
MAX_CACHED_SELECTIONS = 64
NEVER = -1
_NO_COLUMN = -1


@dataclass
class _CachedSelection:
    """Which columns match a selection, as of `version`."""

    passes: Flags
    version: int


class Block:
    """Series of the metric `name` over the newest `slots` slots; `sets` numbers their labels."""

    def __init__(self, name: str, slots: int, sets: LabelSets):
        self.name, self.slots = name, slots
        self.newest = NEVER
        #: The newest slot with a value that is not finite; arrays of such slots are not for rules.
        self.not_finite = NEVER
        self._count = 0  # sampled slots, the rows in use
        self._ticks = np.full(slots + max(4, slots // 8), NEVER, np.int64)
        self._values = np.empty((len(self._ticks), 0))  # takes memory for the rows in use alone
        self._last = np.zeros(0, np.int64)  # the newest slot in which a column has a value
        self._created = np.zeros(0, np.int64)  # the version in which a column got its series
        self._bare = np.zeros(0, np.int64)  # the number of each column's labels, without the name
        self._columns = np.full(0, _NO_COLUMN, np.int32)  # column by number
        self._free: list[int] = []
        self._used = self._version = 0
        self._selections: dict[tuple[Matcher, ...], _CachedSelection] = {}
        self._sets, self._name = sets, sets.number({METRIC_NAME: name})

    def __len__(self) -> int:
        return self._used

    @property
    def bytes(self) -> int:
        """Memory of the values."""
        return self._values.nbytes

    # -- writing ---------------------------------------------------------------------------------

    def put(self, slot: int, bare: Integers, values: Floats, spare: int) -> tuple[int, int]:
        """Store all values of one slot, by the numbers of their labels without the name; the first one counts.

        Returns the counts of refused samples (at most `spare` series may be new) and of duplicates.
        """
        if slot <= self.newest - self.slots:
            return 0, 0
        self.newest = max(self.newest, slot)
        columns = self._columns_of(bare, spare + self._release())
        taken = columns != _NO_COLUMN
        columns, values = columns[taken], values[taken]
        self._last[columns] = np.maximum(self._last[columns], slot)
        place = self._row(slot)
        row = self._values[place]
        row[:] = np.nan
        if not np.isfinite(values).all():
            values, self.not_finite = as_samples(values), max(self.not_finite, slot)
        row[columns[::-1]] = values[::-1]
        return len(bare) - len(columns), len(columns) - int(np.count_nonzero(~is_absent(row)))

    def _release(self) -> int:
        """Free the columns without any value left; returns their number."""
        gone = np.flatnonzero((self._last != NEVER) & (self._last <= self.newest - self.slots))
        self._columns[self._bare[gone]] = _NO_COLUMN
        self._free += gone.tolist()
        self._last[gone] = NEVER
        self._used -= len(gone)
        return len(gone)

    def _columns_of(self, bare: Integers, spare: int) -> Integers:
        """The column of each number; as many as `spare` are new, others have none."""
        if len(self._columns) <= bare.max(initial=0):
            more = np.full(len(self._sets) + len(self._sets) // 4 + 64, _NO_COLUMN, np.int32)
            more[: len(self._columns)] = self._columns
            self._columns = more
        found = self._columns[bare]
        if (found == _NO_COLUMN).any():
            new = bare[found == _NO_COLUMN]
            first = np.sort(np.unique(new, return_index=True)[1])[: max(0, spare)]
            self._add(new[first])
            found = self._columns[bare]
        return found.astype(np.int64)

    def _add(self, bare: Integers) -> Integers:
        """Give each of these numbers a column."""
        if len(bare) > len(self._free):
            self._grow(len(bare) - len(self._free))
        columns = np.array([self._free.pop() for _ in range(len(bare))], np.int64)
        self._version += 1
        self._columns[bare], self._bare[columns], self._created[columns] = columns, bare, self._version
        self._last[columns] = self.newest - self.slots + 1  # in use, although without a value
        self._used += len(bare)
        return columns

    def _grow(self, wanted: int) -> None:
        before = len(self._last)
        more = max(8, wanted, before // 8)
        narrow, self._values = self._values, np.empty((len(self._ticks), before + more))
        self._values[: self._count, :before] = narrow[: self._count]
        self._values[: self._count, before:] = np.nan
        self._last = np.append(self._last, np.full(more, NEVER))
        self._created = np.append(self._created, np.zeros(more, np.int64))
        self._bare = np.append(self._bare, np.zeros(more, np.int64))
        self._free += range(before + more - 1, before - 1, -1)

    def _row(self, slot: int) -> int:
        """The row of a slot. Rows that readers may hold are not written to: only the row behind the last is."""
        place = int(np.searchsorted(self._ticks[: self._count], slot))
        if place == self._count < len(self._ticks):
            self._count += 1
        else:
            place = self._rewritten(slot)
        self._ticks[place] = slot
        return place

    def _rewritten(self, slot: int) -> int:
        """Copy the rows that are not too old, with a row for `slot` in its place; returns that row."""
        held, ticks = self._held(), self._ticks
        others = np.flatnonzero(ticks[held] != slot) + held.start
        place = int(np.searchsorted(ticks[others], slot))
        rows = np.arange(len(others)) + (np.arange(len(others)) >= place)
        self._ticks, before = np.full(len(ticks), NEVER, np.int64), self._values
        self._values = np.empty(before.shape)
        for row, other in zip(rows.tolist(), others.tolist(), strict=True):
            self._ticks[row], self._values[row] = ticks[other], before[other]
        self._count = len(others) + 1
        return place

    # -- reading ---------------------------------------------------------------------------------

    def _held(self) -> slice:
        """The rows that are not too old."""
        begin = int(np.searchsorted(self._ticks[: self._count], self.newest - self.slots, side="right"))
        return slice(begin, self._count)

    def sampled(self) -> Integers:
        """The sampled slots, oldest first."""
        return self._ticks[self._held()].copy()

    def misses(self, slot: int) -> bool:
        """Whether this slot is not sampled and recent enough to be filled."""
        return bool(slot > self.newest - self.slots and slot not in self._ticks[: self._count])

    def select(self, matchers: tuple[Matcher, ...], first: int, last: int, step: float) -> Iterator[Series]:
        """Series with their samples in slots `first` to `last`; a staleness marker follows the last value."""
        found = self.dense(matchers, first, last, step)
        if not len(found.times):
            return iter(())
        values = np.ascontiguousarray(found.values.T)
        return series_of_rows(list(found.labels), values, found.times, found.before)

    def dense(self, matchers: tuple[Matcher, ...], first: int, last: int, step: float) -> DenseSeries:
        """The samples in slots `first` to `last`, and in the slot before."""
        held = self._held()
        ticks = self._ticks[held]
        begin, end = np.searchsorted(ticks, [first, last + 1])
        # The slot before shows whether a series ended in the first one.
        before = 1 if 0 < begin < end else 0
        rows = slice(held.start + begin - before, held.start + max(begin, end))
        times = (self._ticks[rows] * step).astype(np.float64)
        columns = self._matching(matchers)
        if len(times):
            columns = columns[self._last[columns] >= self._ticks[rows][0]]
        labels = LabelColumn(self._sets, self._bare[columns] | self._name, unique=True)
        everything = len(columns) and len(columns) == columns[-1] + 1  # a slice is no copy
        values = self._values[rows, : len(columns)] if everything else self._values[rows, columns]
        return DenseSeries(labels, times, values, before)

    def _matching(self, matchers: tuple[Matcher, ...]) -> Integers:
        """Columns in use that match; each is matched once for each selection, when it is new."""
        used = self._last != NEVER
        if not matchers:
            return np.flatnonzero(used)
        known = self._selections.get(matchers)
        if known is None:
            if len(self._selections) >= MAX_CACHED_SELECTIONS:
                self._selections.clear()
            known = self._selections[matchers] = _CachedSelection(np.zeros(0, bool), 0)
        if known.version < self._version:
            passes = np.zeros(len(self._last), bool)
            passes[: len(known.passes)] = known.passes
            for column in paced(np.flatnonzero(self._created > known.version).tolist()):
                passes[column] = matches(matchers, self._sets.labels(int(self._bare[column] | self._name)))
            known.passes, known.version = passes, self._version
        return np.flatnonzero(known.passes & used[: len(known.passes)])

    # -- as a whole ------------------------------------------------------------------------------

    def resized(self, slots: int, sets: LabelSets | None = None) -> Block:
        """A copy of the block with another number of slots, its labels numbered in `sets`."""
        block = Block(self.name, slots, sets or self._sets)
        block.fill(*self.content())
        return block

    def content(self) -> Content:
        """A copy of all labels, slots and values."""
        columns = np.flatnonzero(self._last != NEVER)
        labels = [self._sets.labels(number) for number in self._bare[columns].tolist()]
        return labels, self.sampled(), np.ascontiguousarray(self._values[self._held(), columns].T)

    def fill(self, labels: Sequence[Labels], ticks: Integers, values: Floats) -> None:
        """Load a content into an empty block; slots that are too old for the block are dropped."""
        self.newest = int(ticks.max(initial=NEVER))
        young = ticks > self.newest - self.slots
        ticks, values = ticks[young], values[:, young]
        present = ~is_absent(values)
        self.not_finite = int(ticks[(present & ~np.isfinite(values)).any(axis=0)].max(initial=NEVER))
        kept = np.flatnonzero(present.any(axis=1))
        bare = np.array([self._sets.number(labels[place]) for place in kept.tolist()], np.int64)
        columns = self._columns_of(bare, len(bare))
        self._count = len(ticks)
        self._ticks[: self._count] = ticks
        self._values[: self._count] = np.nan
        self._values[: self._count, columns] = values[kept].T
        self._last[columns] = np.where(present[kept], ticks, NEVER).max(axis=1, initial=NEVER)


def series_of_rows(labels: Sequence[Labels], values: Floats, times: Floats, skip: int) -> Iterator[Series]:
    """Convert rows to series; the first `skip` columns only show which series existed before."""
    present = ~is_absent(values)
    ended = np.zeros_like(present)
    ended[:, 1:] = present[:, :-1] & ~present[:, 1:]
    values = np.where(ended, STALE, values)[:, skip:]
    sampled, times = (present | ended)[:, skip:], times[skip:]
    counts = sampled.sum(axis=1).tolist()
    for row, label_set in paced(enumerate(labels)):
        if counts[row] == len(times):
            yield Series(label_set, times, values[row])
        elif counts[row]:
            yield Series(label_set, times[sampled[row]], values[row][sampled[row]])
