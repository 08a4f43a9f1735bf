"""The series of one metric as one array: a row per series, a column per slot of the grid, NaN for no sample.

Columns form a ring: slot k is in column k modulo their number. `_ticks` holds the slot of each column, which
distinguishes slots that were not sampled from slots in which a series was absent. Not thread-safe: `grid`
locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.series import METRIC_NAME, STALE, Floats, Series

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
#: Label sets without the name, the slots that were sampled, values of the shape (series, slots).
Content = tuple[Sequence[Labels], Integers, Floats]
#: Selections that are cached; rules and pages repeat the same few.
MAX_CACHED_SELECTIONS = 64
NEVER = -1


@dataclass
class _CachedSelection:
    """Which rows match a selection, as of `version`."""

    passes: Flags
    version: int


class Block:
    """Series of the metric `name` over the newest `slots` slots."""

    def __init__(self, name: str, slots: int):
        self.name, self.slots = name, slots
        self.newest = NEVER
        self._values = np.full((0, slots), np.nan)
        self._ticks = np.full(slots, NEVER, np.int64)
        self._last = np.zeros(0, np.int64)  # the newest slot in which a row has a value
        self._created = np.zeros(0, np.int64)  # the version in which a row got its series
        self._labels: list[Labels] = []
        self._rows: dict[frozenset[tuple[str, str]], int] = {}
        self._free: list[int] = []
        self._version = 0
        self._selections: dict[tuple[Matcher, ...], _CachedSelection] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """Memory of the values."""
        return self._values.nbytes

    # -- writing ---------------------------------------------------------------------------------

    def put(self, slot: int, samples: Sequence[tuple[Labels, float]], spare: int) -> tuple[int, int]:
        """Store all values of one slot. Returns the counts of refused samples (at most `spare` series may be
        new) and of duplicates."""
        if slot <= self.newest - self.slots:
            return 0, 0
        self.newest = max(self.newest, slot)
        spare += self._release()
        found: dict[int, float] = {}
        refused = 0
        for labels, value in samples:
            row = self._row(labels, spare)
            if row is None:
                refused += 1
                continue
            spare -= row not in found and self._last[row] == NEVER
            self._last[row] = max(self._last[row], slot)
            found.setdefault(row, value)
        column = slot % self.slots
        self._ticks[column] = slot
        self._values[:, column] = np.nan
        self._values[list(found), column] = list(found.values())
        return refused, len(samples) - refused - len(found)

    def _release(self) -> int:
        """Free the rows without any value left; returns their number."""
        gone = np.flatnonzero((self._last != NEVER) & (self._last <= self.newest - self.slots))
        for row in gone.tolist():
            del self._rows[self._key(self._labels[row])]
            self._free.append(row)
        self._last[gone] = NEVER
        return len(gone)

    def _row(self, labels: Labels, spare: int) -> int | None:
        key = frozenset(labels.items())
        row = self._rows.get(key)
        return row if row is not None or spare <= 0 else self._new_row(key, labels)

    def _new_row(self, key: frozenset[tuple[str, str]], labels: Labels) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._version += 1
        self._rows[key], self._created[row] = row, self._version
        self._labels[row] = {METRIC_NAME: self.name, **labels}
        return row

    @staticmethod
    def _key(labels: Labels) -> frozenset[tuple[str, str]]:
        return frozenset(item for item in labels.items() if item[0] != METRIC_NAME)

    def _grow(self) -> None:
        before = len(self._last)
        more = max(8, before)
        self._values = np.concatenate([self._values, np.full((more, self.slots), np.nan)])
        self._last = np.concatenate([self._last, np.full(more, NEVER)])
        self._created = np.concatenate([self._created, np.zeros(more, np.int64)])
        self._labels += [{}] * more
        self._free += range(before + more - 1, before - 1, -1)

    # -- reading ---------------------------------------------------------------------------------

    def sampled(self) -> Integers:
        """The sampled slots, oldest first."""
        return np.sort(self._ticks[self._ticks > max(NEVER, self.newest - self.slots)])

    def misses(self, slot: int) -> bool:
        """Whether this slot is not sampled and recent enough to be filled."""
        return bool(slot > self.newest - self.slots and self._ticks[slot % self.slots] != slot)

    def select(self, matchers: tuple[Matcher, ...], first: int, last: int, step: float) -> Iterator[Series]:
        """Series with their samples in slots `first` to `last`; a staleness marker follows the last value."""
        slots = self.sampled()
        begin, end = np.searchsorted(slots, [first, last + 1])
        if begin >= end:
            return iter(())
        # The slot before shows whether a series ended in the first one.
        seen = slots[max(0, begin - 1) : end]
        rows = self._matching(matchers)
        rows = rows[self._last[rows] >= seen[0]]
        labels = [self._labels[row] for row in rows.tolist()]
        values = self._values[np.ix_(rows, seen % self.slots)]
        return series_of_rows(labels, values, (seen * step).astype(np.float64), 1 if begin else 0)

    def _matching(self, matchers: tuple[Matcher, ...]) -> Integers:
        """Rows in use that match; each row is matched once for each selection, when it is new."""
        known = self._selections.get(matchers)
        if known is None:
            if len(self._selections) >= MAX_CACHED_SELECTIONS:
                self._selections.clear()
            known = self._selections[matchers] = _CachedSelection(np.zeros(0, bool), 0)
        if known.version < self._version:
            passes = np.zeros(len(self._last), bool)
            passes[: len(known.passes)] = known.passes
            for row in np.flatnonzero(self._created > known.version).tolist():
                passes[row] = matches(matchers, self._labels[row])
            known.passes, known.version = passes, self._version
        used = self._last[: len(known.passes)] != NEVER
        return np.flatnonzero(known.passes & used)

    # -- as a whole ------------------------------------------------------------------------------

    def resized(self, slots: int) -> Block:
        """A copy of the block with another number of slots."""
        block = Block(self.name, slots)
        block.fill(*self.content())
        return block

    def content(self) -> Content:
        """A copy of all labels, slots and values."""
        ticks = self.sampled()
        rows = np.array(sorted(self._rows.values()), np.int64)
        labels = [dict(self._key(self._labels[row])) for row in rows.tolist()]
        return labels, ticks, self._values[np.ix_(rows, ticks % self.slots)]

    def fill(self, labels: Sequence[Labels], ticks: Integers, values: Floats) -> None:
        """Load a content into an empty block; slots that are too old for the block are dropped."""
        young = ticks > ticks.max(initial=NEVER) - self.slots
        ticks, values = ticks[young], values[:, young]
        present = ~np.isnan(values)
        kept = np.flatnonzero(present.any(axis=1))
        named = ((frozenset(labels[place].items()), labels[place]) for place in kept.tolist())
        rows = np.array([self._new_row(*item) for item in named], np.int64)
        self.newest = int(ticks.max(initial=NEVER))
        self._ticks[ticks % self.slots] = ticks
        self._values[np.ix_(rows, ticks % self.slots)] = values[kept]
        self._last[rows] = np.where(present[kept], ticks, NEVER).max(axis=1, initial=NEVER)


def series_of_rows(labels: Sequence[Labels], values: Floats, times: Floats, skip: int) -> Iterator[Series]:
    """Convert rows to series; the first `skip` columns only show which series existed before."""
    present = ~np.isnan(values)
    ended = np.zeros_like(present)
    ended[:, 1:] = present[:, :-1] & ~present[:, 1:]
    values = np.where(ended, STALE, values)[:, skip:]
    sampled, times = (present | ended)[:, skip:], times[skip:]
    counts = sampled.sum(axis=1).tolist()
    for row, label_set in enumerate(labels):
        if counts[row] == len(times):
            yield Series(label_set, times, values[row])
        elif counts[row]:
            yield Series(label_set, times[sampled[row]], values[row][sampled[row]])
