"""Series on one grid of time: what a Prometheus that scrapes us would hold, as dense arrays.

Only metrics that somebody reads are kept, each for as long as it is read. One thread puts, any thread selects.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence

from alerts.matching.labels import Labels, Matcher
from alerts.promql.series import METRIC_NAME, Series
from controlplane.metrics.series.blocks import Block, Content

STEP_SECONDS = 15.0
MAX_SERIES = 50_000
#: Slots that may be missing between two others before what lies behind them counts as another story.
MAX_MISSING_SLOTS = 4
#: The name of a metric, its labels without `__name__`, its value.
NamedSample = tuple[str, Labels, float]


class Grid:
    """`kept`: seconds by metric name; `step`: seconds between slots; `most_series`: of all metrics together."""

    def __init__(self, kept: Mapping[str, float], step: float = STEP_SECONDS, most_series: int = MAX_SERIES):
        self.step, self.most_series = step, most_series
        #: Of the last scrape: series that were too many, and label sets that were told twice.
        self.refused = self.duplicates = 0
        self._lock = threading.Lock()
        self._blocks = {name: Block(name, self._slots(seconds)) for name, seconds in kept.items()}

    def _slots(self, seconds: float) -> int:
        return math.ceil((seconds + self.step) / self.step)

    # -- writing ---------------------------------------------------------------------------------

    def put(self, at: float, samples: Iterable[NamedSample], names: Iterable[str] | None = None) -> None:
        """One scrape: of every metric kept (of `names` alone, where given), a series not among the samples is absent.

        `at`: Unix seconds, a multiple of the step, ValueError otherwise; a slot that is too old is let go.
        """
        slot = round(at / self.step)
        if abs(slot * self.step - at) > 0.001:
            raise ValueError(f"{at} is no multiple of the step, {self.step} s")
        told: dict[str, list[tuple[Labels, float]]] = {}
        for name, labels, value in samples:
            if name in self._blocks and math.isfinite(value):
                told.setdefault(name, []).append((_without_empty(labels), value))
        with self._lock:
            held = sum(map(len, self._blocks.values()))
            for name in self._blocks if names is None else self._blocks.keys() & set(names):
                block = self._blocks[name]
                before = len(block)
                refused, repeated = block.put(slot, told.get(name, ()), self.most_series - held)
                held += len(block) - before
                self.refused += refused
                self.duplicates += repeated

    def keep(self, kept: Mapping[str, float]) -> None:
        """Keep these metrics from now on, and of what is held already all that stays."""
        with self._lock:
            self._blocks = {name: self._kept(name, self._slots(seconds)) for name, seconds in kept.items()}

    def _kept(self, name: str, slots: int) -> Block:
        known = self._blocks.get(name)
        if known is None:
            return Block(name, slots)
        return known if known.slots == slots else known.resized(slots)

    # -- reading ---------------------------------------------------------------------------------

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
        """Series with samples of start < t <= end; each ends with a stale mark at the first slot it is absent in."""
        first = math.floor(start / self.step + 1e-9) + 1
        last = math.floor(end / self.step + 1e-9)
        others = tuple(matcher for matcher in matchers if matcher.name != METRIC_NAME)
        with self._lock:
            return [
                series
                for block in self._named(matchers)
                for series in block.select(others, first, last, self.step)
            ]

    def _named(self, matchers: Sequence[Matcher]) -> list[Block]:
        about = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
        exact = next((matcher.value for matcher in about if matcher.operator == "="), None)
        names = list(self._blocks) if exact is None else [exact]
        chosen = (name for name in names if all(matcher.matches({METRIC_NAME: name}) for matcher in about))
        return [self._blocks[name] for name in chosen if name in self._blocks]

    @property
    def names(self) -> frozenset[str]:
        """The metrics that are kept."""
        return frozenset(self._blocks)

    def oldest(self, name: str) -> float | None:
        """The time from which on a metric is told without a hole; None where it is not kept, or nothing is told."""
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

    def open_slots(self, now: float) -> range:
        """The slots up to `now` that some metric is kept for, the newest first."""
        last = math.floor(now / self.step)
        with self._lock:
            slots = max((block.slots for block in self._blocks.values()), default=0)
        return range(last, max(0, last - slots), -1)

    def missing(self, slot: int) -> frozenset[str]:
        """Metrics that nobody sampled at this slot, though it is not too old for them."""
        with self._lock:
            return frozenset(name for name, block in self._blocks.items() if block.misses(slot))

    @property
    def series_count(self) -> int:
        with self._lock:
            return sum(map(len, self._blocks.values()))

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(block.bytes for block in self._blocks.values())

    # -- as a whole ------------------------------------------------------------------------------

    def contents(self) -> list[tuple[str, int, Content]]:
        """Of each metric its name, its slots and a copy of what is held."""
        with self._lock:
            return [(block.name, block.slots, block.content()) for block in self._blocks.values()]

    def take_over(self, blocks: Iterable[Block]) -> None:
        """Blocks that were held before a restart; what is not kept any more is let go."""
        with self._lock:
            for block in blocks:
                known = self._blocks.get(block.name)
                if known is not None:
                    self._blocks[block.name] = block.resized(known.slots)


def _without_empty(labels: Labels) -> Labels:
    """A label with an empty value is as good as none."""
    return labels if all(labels.values()) else {name: value for name, value in labels.items() if value}
