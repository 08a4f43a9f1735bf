"""Series on a fixed time grid: the samples that a Prometheus scraping this server would hold, as dense
arrays.

Only metrics that rules read are kept, each for the time they need. One thread writes, any thread reads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from alerts.matching.labels import Labels, Matcher
from alerts.promql.dense import DenseSeries
from alerts.promql.label_sets import Integers, LabelSets, bare_numbers, by_metric
from alerts.promql.series import METRIC_NAME, Floats, Series, is_stale
from controlplane.metrics.series.blocks import NEVER, Block, Content

STEP_SECONDS = 15.0
MAX_SERIES = 500_000
#: Label sets may be so many times the series, and MIN_SETS more, before those of ended series are forgotten.
MAX_SETS_PER_SERIES, MIN_SETS = 3, 100_000
#: Slots that may be missing between two sampled ones before the earlier ones count as a separate history.
MAX_MISSING_SLOTS = 4
#: The name of a metric, its labels without `__name__`, its value.
NamedSample = tuple[str, Labels, float]
_NOTHING = np.zeros(0, np.int64)


class Grid:
    """Blocks by metric.

    `kept`: seconds by metric name; `step`: seconds between slots; `max_series`: total limit.
    """

    def __init__(self, kept: Mapping[str, float], step: float = STEP_SECONDS, max_series: int = MAX_SERIES):
        self.step, self.max_series = step, max_series
        #: Totals of series refused by the limit, and of duplicate label sets.
        self.refused = self.duplicates = 0
        self._lock = threading.Lock()
        #: The numbers of all labels; replaced by smaller ones when most of them are of series that have ended.
        self.label_sets = LabelSets()
        self._blocks = {
            name: Block(name, self._slots(seconds), self.label_sets) for name, seconds in kept.items()
        }

    def _slots(self, seconds: float) -> int:
        return math.ceil((seconds + self.step) / self.step)

    # -- writing ---------------------------------------------------------------------------------

    def put(self, at: float, samples: Iterable[NamedSample], names: Iterable[str] | None = None) -> None:
        """Store one scrape. A series of a kept metric (of `names`, if given) that is not in the samples is
        absent.

        `at`: Unix seconds, a multiple of the step, ValueError otherwise. A slot that is too old is ignored.
        """
        number = self.label_sets.numbered
        kept = [item for item in samples if item[0] in self._blocks]
        numbers = np.array([number(name, _without_empty(labels)) for name, labels, _ in kept], np.int64)
        self.put_numbers(at, numbers, np.array([value for _, _, value in kept], float), names)

    def put_numbers(
        self, at: float, numbers: Integers, values: Floats, names: Iterable[str] | None = None
    ) -> None:
        """The same, of series by their numbers in `label_sets`."""
        slot = round(at / self.step)
        if abs(slot * self.step - at) > 0.001:
            raise ValueError(f"{at} is not a multiple of the step of {self.step} s")
        of_metric = by_metric(numbers, ~is_stale(values))
        with self._lock:
            held = sum(map(len, self._blocks.values()))
            for name in self._blocks if names is None else self._blocks.keys() & set(names):
                block = self._blocks[name]
                rows = of_metric.get(self.label_sets.name_number(name), _NOTHING)
                before = len(block)
                bare = bare_numbers(numbers[rows])
                refused, repeated = block.put(slot, bare, values[rows], self.max_series - held)
                held += len(block) - before
                self.refused += refused
                self.duplicates += repeated
            if len(self.label_sets) > MAX_SETS_PER_SERIES * held + MIN_SETS:
                self._renumber()

    def _renumber(self) -> None:
        """Number the labels that are held anew, so that those of ended series are forgotten."""
        self.label_sets = LabelSets()
        self._blocks = {
            name: block.resized(block.slots, self.label_sets) for name, block in self._blocks.items()
        }

    def keep(self, kept: Mapping[str, float]) -> None:
        """Keep these metrics from now on; samples of metrics that stay are preserved."""
        with self._lock:
            self._blocks = {name: self._kept(name, self._slots(seconds)) for name, seconds in kept.items()}

    def _kept(self, name: str, slots: int) -> Block:
        known = self._blocks.get(name)
        if known is None:
            return Block(name, slots, self.label_sets)
        return known if known.slots == slots else known.resized(slots)

    # -- reading ---------------------------------------------------------------------------------

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
        """Series with samples of start < t <= end, each ended by a staleness marker in its first absent slot."""
        first, last = self._slots_between(start, end)
        others = tuple(matcher for matcher in matchers if matcher.name != METRIC_NAME)
        with self._lock:
            return [
                series
                for block in self._blocks_for(matchers)
                for series in block.select(others, first, last, self.step)
            ]

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        """The same as arrays; None for a selector that does not name its metric, or if a value is not finite."""
        names = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
        block = self._blocks.get(names[0].value) if len(names) == 1 and names[0].operator == "=" else None
        if block is None:
            return None
        others = tuple(matcher for matcher in matchers if matcher.name != METRIC_NAME)
        first, last = self._slots_between(start, end)
        with self._lock:
            if block.not_finite != NEVER and block.not_finite >= first - 1:
                return None
            return block.dense(others, first, last, self.step)

    def _slots_between(self, start: float, end: float) -> tuple[int, int]:
        return math.floor(start / self.step + 1e-9) + 1, math.floor(end / self.step + 1e-9)

    def _blocks_for(self, matchers: Sequence[Matcher]) -> list[Block]:
        by_name = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
        exact = next((matcher.value for matcher in by_name if matcher.operator == "="), None)
        names = list(self._blocks) if exact is None else [exact]
        chosen = (name for name in names if all(matcher.matches({METRIC_NAME: name}) for matcher in by_name))
        return [self._blocks[name] for name in chosen if name in self._blocks]

    @property
    def names(self) -> frozenset[str]:
        """The metrics that are kept."""
        return frozenset(self._blocks)

    def oldest(self, name: str) -> float | None:
        """The time from which a metric has samples without a gap; None if it is not kept or not sampled."""
        with self._lock:
            block = self._blocks.get(name)
            slots = block.sampled().tolist() if block is not None else []
        begin = len(slots) - 1
        while begin > 0 and slots[begin] - slots[begin - 1] <= MAX_MISSING_SLOTS:
            begin -= 1
        return slots[begin] * self.step if slots else None

    @property
    def newest(self) -> float | None:
        """The time of the newest slot of all."""
        with self._lock:
            slot = max((block.newest for block in self._blocks.values()), default=-1)
        return slot * self.step if slot >= 0 else None

    def open_slots(self, now: float, names: Set[str]) -> range:
        """The slots up to `now` that are kept for some of these metrics, newest first."""
        last = math.floor(now / self.step)
        with self._lock:
            slots = max((block.slots for name, block in self._blocks.items() if name in names), default=0)
        return range(last, max(0, last - slots), -1)

    def missing(self, slot: int, names: Set[str]) -> frozenset[str]:
        """Those of the metrics without a sample in this slot although it is not too old for them."""
        with self._lock:
            held = ((name, self._blocks.get(name)) for name in names)
            return frozenset(name for name, block in held if block is not None and block.misses(slot))

    @property
    def series_count(self) -> int:
        """The number of series of all metrics."""
        with self._lock:
            return sum(map(len, self._blocks.values()))

    @property
    def bytes(self) -> int:
        """Memory of all values."""
        with self._lock:
            return sum(block.bytes for block in self._blocks.values())

    # -- as a whole ------------------------------------------------------------------------------

    def contents(self) -> list[tuple[str, int, Content]]:
        """For each metric its name, its number of slots and a copy of its content."""
        with self._lock:
            return [(block.name, block.slots, block.content()) for block in self._blocks.values()]

    def take_over(self, blocks: Iterable[Block]) -> None:
        """Load blocks saved before a restart; metrics that are no longer kept are dropped."""
        with self._lock:
            for block in blocks:
                known = self._blocks.get(block.name)
                if known is not None:
                    self._blocks[block.name] = block.resized(known.slots, self.label_sets)


def _without_empty(labels: Labels) -> Labels:
    """The labels without empty values, which are equivalent to missing labels."""
    return labels if all(labels.values()) else {name: value for name, value in labels.items() if value}
