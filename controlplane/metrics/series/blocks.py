"""The series of one metric as one array: a row a series, a column a slot of the grid, NaN where there is nothing.

Columns are a ring: slot k is in column k modulo their number, and `_ticks` says which slot a column holds, so
that slots nobody sampled are told from those in which a series was absent. Not locked: `grid` does that.
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
#: Selections that are remembered; rules and pages ask the same few again and again.
MAX_CACHED_SELECTIONS = 64
NEVER = -1


@dataclass
class _CachedSelection:
    """Which rows pass some matchers, as of `version`."""

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
        self._born = np.zeros(0, np.int64)  # the version that gave a row to its series
        self._labels: list[Labels] = []
        self._rows: dict[frozenset[tuple[str, str]], int] = {}
        self._free: list[int] = []
        self._version = 0
        self._answers: dict[tuple[Matcher, ...], _CachedSelection] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        return self._values.nbytes

    # -- writing ---------------------------------------------------------------------------------

    def put(self, slot: int, samples: Sequence[tuple[Labels, float]], spare: int) -> tuple[int, int]:
        """All values of one slot; how many were refused (at most `spare` series may be new) and repeated."""
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
        """Rows without any value left are free for others; how many."""
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
        self._rows[key], self._born[row] = row, self._version
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
        self._born = np.concatenate([self._born, np.zeros(more, np.int64)])
        self._labels += [{}] * more
        self._free += range(before + more - 1, before - 1, -1)

    # -- reading ---------------------------------------------------------------------------------

    def sampled(self) -> Integers:
        """The slots that somebody put, oldest first."""
        return np.sort(self._ticks[self._ticks > max(NEVER, self.newest - self.slots)])

    def misses(self, slot: int) -> bool:
        """Whether nobody put this slot, and somebody still could."""
        return bool(slot > self.newest - self.slots and self._ticks[slot % self.slots] != slot)

    def select(self, matchers: tuple[Matcher, ...], first: int, last: int, step: float) -> Iterator[Series]:
        """Series with their samples in slots `first` to `last`; a stale mark where one is absent after a value."""
        slots = self.sampled()
        begin, end = np.searchsorted(slots, [first, last + 1])
        if begin >= end:
            return iter(())
        # The slot before tells whether a series ended in the first one.
        seen = slots[max(0, begin - 1) : end]
        rows = self._matching(matchers)
        rows = rows[self._last[rows] >= seen[0]]
        labels = [self._labels[row] for row in rows.tolist()]
        values = self._values[np.ix_(rows, seen % self.slots)]
        return series_of_rows(labels, values, (seen * step).astype(np.float64), 1 if begin else 0)

    def _matching(self, matchers: tuple[Matcher, ...]) -> Integers:
        """Rows in use that pass; each row is looked at once for each matchers, when it is new."""
        known = self._answers.get(matchers)
        if known is None:
            if len(self._answers) >= MAX_CACHED_SELECTIONS:
                self._answers.clear()
            known = self._answers[matchers] = _CachedSelection(np.zeros(0, bool), 0)
        if known.version < self._version:
            passes = np.zeros(len(self._last), bool)
            passes[: len(known.passes)] = known.passes
            for row in np.flatnonzero(self._born > known.version).tolist():
                passes[row] = matches(matchers, self._labels[row])
            known.passes, known.version = passes, self._version
        used = self._last[: len(known.passes)] != NEVER
        return np.flatnonzero(known.passes & used)

    # -- as a whole ------------------------------------------------------------------------------

    def resized(self, slots: int) -> Block:
        """The same series, kept for another time."""
        block = Block(self.name, slots)
        block.fill(*self.content())
        return block

    def content(self) -> Content:
        """A copy of all that is held."""
        ticks = self.sampled()
        rows = np.array(sorted(self._rows.values()), np.int64)
        labels = [dict(self._key(self._labels[row])) for row in rows.tolist()]
        return labels, ticks, self._values[np.ix_(rows, ticks % self.slots)]

    def fill(self, labels: Sequence[Labels], ticks: Integers, values: Floats) -> None:
        """Take over a content; what is too old for this block is left out. Only for a block that is empty."""
        young = ticks > ticks.max(initial=NEVER) - self.slots
        ticks, values = ticks[young], values[:, young]
        present = ~np.isnan(values)
        kept = np.flatnonzero(present.any(axis=1))
        named = ((frozenset(labels[place].items()), labels[place]) for place in kept.tolist())
        rows = np.array([self._new_row(*one) for one in named], np.int64)
        self.newest = int(ticks.max(initial=NEVER))
        self._ticks[ticks % self.slots] = ticks
        self._values[np.ix_(rows, ticks % self.slots)] = values[kept]
        self._last[rows] = np.where(present[kept], ticks, NEVER).max(axis=1, initial=NEVER)


def series_of_rows(labels: Sequence[Labels], values: Floats, times: Floats, skip: int) -> Iterator[Series]:
    """Rows as series; the first `skip` columns only tell what was there before."""
    present = ~np.isnan(values)
    ended = np.zeros_like(present)
    ended[:, 1:] = present[:, :-1] & ~present[:, 1:]
    values = np.where(ended, STALE, values)[:, skip:]
    told, times = (present | ended)[:, skip:], times[skip:]
    counts = told.sum(axis=1).tolist()
    for row, one in enumerate(labels):
        if counts[row] == len(times):
            yield Series(one, times, values[row])
        elif counts[row]:
            yield Series(one, times[told[row]], values[row][told[row]])
