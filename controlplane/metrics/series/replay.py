"""Replay series of any past time from stored events, with the functions that compute current samples.

Used for times that the grid does not hold, and to fill the grid after a start. Metrics that come only from
polls and heartbeats (`NOT_REPLAYABLE`), and those of this server, cannot be replayed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy.engine import Connection

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded, OperationError
from alerts.promql.series import METRIC_NAME, Floats, Series
from controlplane.events.window import Window
from controlplane.metrics.samples import LIFECYCLE_METRICS, query_labels, query_samples
from controlplane.metrics.series.blocks import series_of_rows
from controlplane.metrics.series.grid import Grid, NamedSample
from controlplane.metrics.series.query_history import CounterReplay
from controlplane.metrics.series.sources import exact_name
from controlplane.metrics.series.stored_history import (
    DEEP,
    NARROW_HINT,
    ArchivedHistory,
    HistoryReader,
    QueryPast,
)
from controlplane.model import QueryView
from listeners.protocol.catalogue import AGENT, BASELINE, PREFIX

NOT_REPLAYABLE = frozenset(
    [
        PREFIX + "batch_age_seconds",
        PREFIX + "query_starting_seconds",
        PREFIX + "query_driver_silent",
        PREFIX + "last_task_finished_timestamp_seconds",
        *(m.name for m in (*AGENT, *BASELINE)),
    ]
)
#: Metrics that change with time alone, without an event.
TIME_DEPENDENT = frozenset({PREFIX + "source_lag_seconds"})
#: Limits of one request, up to five seconds each: queries × slots (more for metrics that need no reports,
#: fewer for those that need many), and reports read from the store.
MAX_POINTS = 50_000
LIFECYCLE_FACTOR, DEEP_FACTOR = 4.0, 0.3
MAX_REPORTS = 25_000
#: Slots filled at a time, newest first.
FILL_CHUNK_SLOTS = 20
#: Reports before the range that filling reads; fewer than a window, so time lag reaches back less.
FILL_REPORTS_BEFORE = 10


class SeriesReplay:
    """A SeriesSource over the store. `clock`: Unix seconds; `step`: seconds between slots of the grid.

    `earlier`: the archive of reports that the store has deleted; `coarse`: read few reports per step, for
    long steps.
    """

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        window: Window,
        clock: Callable[[], float],
        step: float,
        earlier: ArchivedHistory | None = None,
        coarse: bool = False,
    ):
        self._reading, self._window, self._clock, self._step = reading, window, clock, step
        self._earlier, self._coarse = earlier, coarse

    @property
    def step(self) -> float:
        """Seconds between two slots."""
        return self._step

    def over(self, earlier: ArchivedHistory | None, coarse: float | None = None) -> SeriesReplay:
        """The same over the store and an archive;

        `coarse`: with this step in seconds and few reports per step.
        """
        step = coarse or self._step
        return SeriesReplay(self._reading, self._window, self._clock, step, earlier, coarse is not None)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """Series as on the grid. Unanswerable if no metric is named, TooCostly beyond the limits."""
        name = exact_name(matchers)
        if name is None:
            raise OperationError("a query over stored history must name the metric, as in NAME{…}")
        views = [view for view in self._window.views() if replayable(name) and may_match(matchers, view)]
        # One slot before the first shows whether a series ended in the first.
        began = _first_event(views)
        first, last = max(start, began), min(end, self._clock())
        slots = range(_slot(first, self._step), _slot(last, self._step) + 1)
        if not views or not slots or slots[-1] * self._step < began:
            return []
        if len(slots) * len(views) > MAX_POINTS * _share(name):
            raise LimitExceeded(
                f"{len(views)} queries at {len(slots)} times each are too many: {NARROW_HINT}"
            )
        query_ids = [view.query_id for view in views]
        tracks = self._tracks(frozenset({name}), query_ids, slots, earlier=self._earlier)
        track = tracks.of.get(name, _MetricRows(len(slots)))
        labels = [{METRIC_NAME: name, **labels} for labels in track.labels]
        times = np.array(slots) * float(self._step)
        found = series_of_rows(labels, track.values, times, 1 if times[0] <= start else 0)
        return [series for series in found if matches(matchers, series.labels)]

    def fill(self, grid: Grid, now: float, seconds: float) -> tuple[int, int]:
        """Fill the unsampled slots of the grid, newest first, for about `seconds` at most.

        Returns the number of slots filled and the number that were missing.
        """
        deadline = time.monotonic() + seconds
        names = frozenset(filter(replayable, grid.names))
        views = self._window.views()
        query_ids, begin = (
            [v.query_id for v in views],
            min((v.first_seen_at for v in views), default=math.inf),
        )
        slots_since = (slot for slot in grid.open_slots(now, names) if slot * self._step >= begin)
        missing = [slot for slot in slots_since if grid.missing(slot, names)]
        filled = 0
        while filled < len(missing) and time.monotonic() < deadline:
            chunk = missing[filled : filled + FILL_CHUNK_SLOTS]
            slots = range(chunk[-1], chunk[0] + 1)
            tracks = self._tracks(names, query_ids, slots, sys.maxsize, FILL_REPORTS_BEFORE, None)
            for slot in chunk:
                grid.put(slot * self._step, tracks.samples(slot - slots[0]), grid.missing(slot, names))
            filled += len(chunk)
        return filled, len(missing)

    def _tracks(
        self,
        names: frozenset[str],
        query_ids: Sequence[str],
        slots: range,
        max_reports: int | None = None,
        before: int | None = None,
        earlier: ArchivedHistory | None = None,
    ) -> _ReplayedRows:
        tracks = _ReplayedRows(len(slots))
        start, end = (slots[0] - 1) * self._step, slots[-1] * self._step
        max_reports = MAX_REPORTS if max_reports is None else max_reports
        with self._reading() as connection:
            every = self._step if self._coarse else None
            reader = HistoryReader(
                connection, self._window, names, start, end, max_reports, before, earlier, every
            )
            for past in reader.pasts(query_ids):
                self._follow(tracks, past, names, slots)
        return tracks

    def _follow(self, tracks: _ReplayedRows, past: QueryPast, names: frozenset[str], slots: range) -> None:
        """Compute every slot of one query.

        Metrics that only events change are computed again only after an event.
        """
        counters = CounterReplay(past.totals, past.later)
        before: object = None
        for place, slot in enumerate(slots):
            t = slot * self._step
            counters.go_to(t)
            view, state = past.history.at(t), (counters.place, *past.history.state(t))
            gone = view is None or not past.holds_name(t)
            needed = names & TIME_DEPENDENT if state == before and not gone else names
            before = None if gone else state
            if needed != names:
                tracks.carry(past.history.view.query_id, place, needed)
            if view is None or gone or not needed:
                continue
            verdict = past.history.verdict(view, t)
            for sample in query_samples(view, verdict, t, counters.totals, needed):
                tracks.add(view.query_id, place, (sample.metric.name, sample.labels, float(sample.value)))


def _first_event(views: Sequence[QueryView]) -> float:
    """The time of the first event of these queries."""
    return min((min(view.first_seen_at, view.start_failed_at or math.inf) for view in views), default=0.0)


def _slot(at: float, step: float) -> int:
    return math.floor(at / step + 1e-9)


def _share(name: str) -> float:
    return LIFECYCLE_FACTOR if name in LIFECYCLE_METRICS else DEEP_FACTOR if name in DEEP else 1.0


def replayable(name: str) -> bool:
    """Whether this metric can be computed from stored events."""
    return name.startswith(PREFIX) and name not in NOT_REPLAYABLE


def may_match(matchers: Sequence[Matcher], view: QueryView) -> bool:
    """Whether series of this query can match; False if the labels common to all of them do not."""
    labels = query_labels(view)
    return all(matcher.matches(labels) for matcher in matchers if matcher.name in labels)


@dataclass
class _MetricRows:
    """The series of one metric: their labels, and a value for each slot of the range."""

    places: int
    labels: list[Labels] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)

    @property
    def values(self) -> Floats:
        """Values of the shape (series, slots)."""
        return np.array(self.rows).reshape(len(self.rows), self.places)

    def append(self, labels: Labels) -> Floats:
        """Add a series without samples and return its row."""
        row = np.full(self.places, np.nan)
        self.labels.append(labels)
        self.rows.append(row)
        return row


class _ReplayedRows:
    """The rows of all metrics, filled query by query."""

    def __init__(self, places: int):
        self._places = places
        self.of: dict[str, _MetricRows] = {}
        self._rows: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Floats]] = {}

    def add(self, query_id: str, place: int, sample: NamedSample) -> None:
        """Store one sample of a query in slot `place` of the range."""
        name, labels, value = sample
        rows = self._rows.setdefault(query_id, {})
        key = name, frozenset(labels.items())
        row = rows.get(key)
        if row is None:
            row = rows[key] = self.of.setdefault(name, _MetricRows(self._places)).append(labels)
        row[place] = value

    def carry(self, query_id: str, place: int, but: frozenset[str]) -> None:
        """Copy a query's values from the slot before, except those of the metrics `but`."""
        for (name, _), row in self._rows.get(query_id, {}).items():
            if name not in but:
                row[place] = row[place - 1]

    def samples(self, place: int) -> Iterator[NamedSample]:
        """All samples in slot `place` of the range."""
        for name, track in self.of.items():
            for labels, row in zip(track.labels, track.rows, strict=True):
                if not math.isnan(row[place]):
                    yield name, labels, float(row[place])
