"""The past of series that cannot be computed again from events: what rules record, alerts, the server's own metrics.

The grid holds them for the recent past; every few minutes `save` copies the samples since the last time to the store, as
one blob a metric. Reads are a SeriesSource in front of another one, which has all other metrics.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import zstandard
from sqlalchemy.engine import Connection

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.series import METRIC_NAME, Floats, Series, SeriesSource, as_samples, is_stale
from alerts.rules.model import RuleGroup, RuleKind
from controlplane.metrics.series.blocks import series_of_rows
from controlplane.metrics.series.replay import NOT_REPLAYABLE
from controlplane.metrics.series.sources import exact_name
from controlplane.store import series as rows
from controlplane.store.writer import Writer
from listeners.protocol.catalogue import AGENT, BASELINE, SERVER
from listeners.protocol.wire import rfc3339

log = logging.getLogger(__name__)
ALERT_SERIES = ("ALERTS", "ALERTS_FOR_STATE")
#: How long the grid holds these series at least: several times the interval of `save`.
MIN_KEPT_SECONDS = 1800.0
#: Values of one metric that `save` stores at a time, and values that one answer reads.
MAX_SAVED_VALUES, MAX_READ_VALUES = 4_000_000, 12_000_000
_COMPUTED = frozenset(metric.name for metric in BASELINE)


def stored_names(groups: Iterable[RuleGroup]) -> frozenset[str]:
    """The metrics whose samples are stored: what the rules record, alerts, metrics of agents and of the server."""
    recorded = {rule.name for group in groups for rule in group.rules if rule.kind is RuleKind.RECORD}
    return frozenset({*recorded, *ALERT_SERIES, *(metric.name for metric in (*AGENT, *SERVER))})


class StoredSamples:
    """Saves and reads samples. Times are Unix seconds; `step`: seconds between slots of the grid."""

    def __init__(
        self, writer: Writer, reading: Callable[[], AbstractContextManager[Connection]], step: float
    ):
        self._writer, self._reading, self._step = writer, reading, step
        #: Metrics that are stored from now on.
        self.names: frozenset[str] = frozenset()

    def save(self, grid: SeriesSource, oldest: Callable[[str], float | None], now: float) -> None:
        """Store what the grid has sampled since the last time. `oldest`: see `Grid.oldest`."""
        end = math.floor(now / self._step) * self._step
        with self._reading() as connection:
            before = rows.stored_until(connection)
        start = max(end - MIN_KEPT_SECONDS, before if before is not None else 0.0)
        sampled = [at for name in self.names if (at := oldest(name)) is not None]
        start = max(start, min(sampled, default=end) - self._step)
        if start >= end:
            return
        found = {name: self._blob(grid, name, start, end) for name in sorted(self.names)}
        blobs = {name: blob for name, blob in found.items() if blob is not None}
        self._writer.write(lambda connection: rows.insert(connection, start, end, blobs))

    def _blob(self, grid: SeriesSource, name: str, start: float, end: float) -> bytes | None:
        series = grid.select([Matcher(METRIC_NAME, "=", name)], start, end)
        slots = _slots(start, end, self._step)
        if not series:
            return None
        if len(series) * len(slots) > MAX_SAVED_VALUES:
            log.warning(
                "%s has %d series, too many to store; its past is kept in memory only", name, len(series)
            )
            return None
        values = np.full((len(series), len(slots)), np.nan)
        for row, item in zip(values, series, strict=True):
            places = np.rint(item.times / self._step).astype(np.int64) - slots[0]
            row[places] = np.where(is_stale(item.values), np.nan, as_samples(item.values))
        return encode(self._step, [item.labels for item in series], values)

    def prune(self, cutoff: float) -> None:
        """Delete samples from before `cutoff`."""
        self._writer.write(lambda connection: rows.prune(connection, cutoff))

    def before(self, other: SeriesSource, notes: list[str]) -> SeriesSource:
        """A source that reads stored series from the store, all others from `other`. `notes` collects warnings."""
        return _WithStored(self, other, notes)

    def read(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
        """Stored series of a metric with samples of start < t <= end."""
        begin = start - self._step  # shows whether a series ended in the first slot
        with self._reading() as connection:
            covered = rows.ranges(connection, rows.COVERED, begin, end)
            found = rows.ranges(connection, name, begin, end)
        slots = np.unique(
            np.concatenate([_slots(a, b, self._step) for a, b, _ in covered] or [np.zeros(0, np.int64)])
        )
        table = _Table(slots, MAX_READ_VALUES)
        for since, until, data in found:
            step, labels, values = decode(data)
            if step == self._step:
                chosen = [place for place, item in enumerate(labels) if matches(matchers, item)]
                table.add(_slots(since, until, step), [labels[place] for place in chosen], values[chosen])
        times = slots * self._step
        inside = (times > begin) & (times <= end)
        skip = int(np.count_nonzero(inside & (times <= start)))
        return list(series_of_rows(table.labels, table.values[:, inside], times[inside], skip))

    def first(self, name: str) -> float | None:
        """Since when a metric is stored."""
        with self._reading() as connection:
            return rows.first_stored(connection, name)


@dataclass(frozen=True)
class _WithStored:
    """See `StoredSamples.before`."""

    stored: StoredSamples
    other: SeriesSource
    notes: list[str]

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        name = exact_name(matchers)
        if name is None or (name not in self.stored.names and name not in NOT_REPLAYABLE - _COMPUTED):
            return self.other.select(matchers, start, end)
        first = self.stored.first(name)
        self._warn(name, first, start)
        return self.stored.read(name, matchers, start, end) if first is not None else []

    def _warn(self, name: str, first: float | None, start: float) -> None:
        if name not in self.stored.names and first is None:
            text = f"{name} is not stored: only its current value is known; a rule that records it makes it stored"
        elif first is not None and first > start + LOOKBACK_SECONDS + 1.0:
            text = f"{name} is stored since {rfc3339(first)}: earlier times are missing"
        else:
            return
        if text not in self.notes:
            self.notes.append(text)


class _Table:
    """Rows of values over the stored slots, by label set."""

    def __init__(self, slots: np.ndarray[tuple[int], np.dtype[np.int64]], limit: int):
        self._slots, self._limit = slots, limit
        self._rows: dict[frozenset[tuple[str, str]], Floats] = {}
        self.labels: list[Labels] = []

    def add(
        self, slots: np.ndarray[tuple[int], np.dtype[np.int64]], labels: Sequence[Labels], values: Floats
    ) -> None:
        places = np.searchsorted(self._slots, slots)
        for item, row in zip(labels, values, strict=True):
            self._row(item)[places] = row

    def _row(self, labels: Labels) -> Floats:
        key = frozenset(labels.items())
        if key not in self._rows:
            if (len(self._rows) + 1) * len(self._slots) > self._limit:
                raise LimitExceeded("the stored series are too many: ask for fewer series or a shorter time")
            self._rows[key] = np.full(len(self._slots), np.nan)
            self.labels.append(labels)
        return self._rows[key]

    @property
    def values(self) -> Floats:
        return np.array(list(self._rows.values())).reshape(len(self._rows), len(self._slots))


def _slots(start: float, end: float, step: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The slots of start < t <= end."""
    return np.arange(round(start / step) + 1, round(end / step) + 1, dtype=np.int64)


def encode(step: float, labels: Sequence[Labels], values: Floats) -> bytes:
    """Series as a blob: each value as the difference of its bits from the one before."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64).copy()
    bits[:, 1:] ^= bits[:, :-1].copy()
    head = json.dumps({"step": step, "labels": [dict(item) for item in labels]}).encode()
    return zstandard.compress(len(head).to_bytes(4, "little") + head + bits.astype("<u8").tobytes())


def decode(data: bytes) -> tuple[float, list[Mapping[str, str]], Floats]:
    """Step, labels and values of a blob."""
    raw = zstandard.decompress(data)
    size = int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4 : 4 + size])
    bits = np.frombuffer(raw[4 + size :], "<u8").reshape(len(head["labels"]), -1)
    values = np.bitwise_xor.accumulate(bits, axis=1).astype(np.uint64).view(np.float64)
    return head["step"], head["labels"], values
