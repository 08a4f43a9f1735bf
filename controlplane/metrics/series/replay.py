"""The series of any time, made from stored events with the functions that make those of now.

For what the grid does not hold, and to fill the grid after a start. Figures that only polls and heartbeats tell
(`NOT_REPLAYABLE`), and those of this server, are not told of the past.
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
        PREFIX + "last_task_finished_timestamp_seconds",
        *(m.name for m in (*AGENT, *BASELINE)),
    ]
)
#: What changes with the time that passes, though nothing happens.
TIME_DEPENDENT = frozenset({PREFIX + "source_lag_seconds"})
#: Queries times slots of one request, more of what needs no reports and fewer of what needs many; and reports that
#: it reads from the store. Up to five seconds each.
MAX_POINTS = 50_000
LIFECYCLE_FACTOR, DEEP_FACTOR = 4.0, 0.3
MAX_REPORTS = 25_000
#: Slots that are filled at a time, the newest first.
FILL_CHUNK_SLOTS = 20
#: Reports from before the stretch that filling reads: lag by time is then seen a little less far back.
FILL_REPORTS_BEFORE = 10


class SeriesReplay:
    """A SeriesSource over the store. `clock`: Unix seconds; `step`: of the grid.

    `earlier`: where reports are that the store has no more; `coarse`: with few reports a step, for long steps.
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
        return self._step

    def over(self, earlier: ArchivedHistory | None, coarse: float | None = None) -> SeriesReplay:
        """The same over the store and what it has forgotten; `coarse`: on a grid of so many seconds."""
        step = coarse or self._step
        return SeriesReplay(self._reading, self._window, self._clock, step, earlier, coarse is not None)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """As the grid would have it. Unanswerable where no metric is named, TooCostly where it is too much."""
        name = exact_name(matchers)
        if name is None:
            raise OperationError("the past is read from the store: name the metric, as in NAME{…}")
        views = [view for view in self._window.views() if replayable(name) and may_match(matchers, view)]
        # One slot before the first: it tells whether a series ended in the first.
        first = max(_slot(start, self._step), self._beginning(views))
        slots = range(first, _slot(min(end, self._clock()), self._step) + 1)
        if not views or not slots:
            return []
        if len(slots) * len(views) > MAX_POINTS * _share(name):
            raise LimitExceeded(
                f"{len(views)} queries at {len(slots)} moments each are too much: {NARROW_HINT}"
            )
        query_ids = [view.query_id for view in views]
        tracks = self._tracks(frozenset({name}), query_ids, slots, earlier=self._earlier)
        track = tracks.of.get(name, _MetricRows(len(slots)))
        labels = [{METRIC_NAME: name, **labels} for labels in track.labels]
        times = np.array(slots) * float(self._step)
        found = series_of_rows(labels, track.values, times, 1 if times[0] <= start else 0)
        return [series for series in found if matches(matchers, series.labels)]

    def _beginning(self, views: Sequence[QueryView]) -> int:
        """The slot before the first in which anything was known of these queries."""
        began = (min(view.first_seen_at, view.start_failed_at or math.inf) for view in views)
        return _slot(min(began, default=0.0), self._step)

    def fill(self, grid: Grid, now: float, seconds: float) -> tuple[int, int]:
        """Fill slots of the grid that nobody sampled, the newest first, for at most about so many seconds.

        How many were filled, of how many.
        """
        deadline = time.monotonic() + seconds
        names = frozenset(filter(replayable, grid.names))
        missing = [slot for slot in grid.open_slots(now) if grid.missing(slot) & names]
        query_ids = [view.query_id for view in self._window.views()]
        filled = 0
        while filled < len(missing) and time.monotonic() < deadline:
            chunk = missing[filled : filled + FILL_CHUNK_SLOTS]
            slots = range(chunk[-1], chunk[0] + 1)
            tracks = self._tracks(names, query_ids, slots, sys.maxsize, FILL_REPORTS_BEFORE, None)
            for slot in chunk:
                grid.put(slot * self._step, tracks.told(slot - slots[0]), grid.missing(slot) & names)
            filled += len(chunk)
        return filled, len(missing)

    def _tracks(
        self,
        names: frozenset[str],
        query_ids: Sequence[str],
        slots: range,
        most: int | None = None,
        before: int | None = None,
        earlier: ArchivedHistory | None = None,
    ) -> _ReplayedRows:
        tracks = _ReplayedRows(len(slots))
        start, end = (slots[0] - 1) * self._step, slots[-1] * self._step
        most = MAX_REPORTS if most is None else most
        with self._reading() as connection:
            every = self._step if self._coarse else None
            reader = HistoryReader(connection, self._window, names, start, end, most, before, earlier, every)
            for past in reader.pasts(query_ids):
                self._follow(tracks, past, names, slots)
        return tracks

    def _follow(self, tracks: _ReplayedRows, past: QueryPast, names: frozenset[str], slots: range) -> None:
        """Every slot of one query. What only events change is looked at again after one."""
        counters = CounterReplay(past.totals, past.later)
        before: object = None
        for place, slot in enumerate(slots):
            t = slot * self._step
            counters.go_to(t)
            view, state = past.history.at(t), (counters.place, *past.history.state(t))
            gone = view is None or not past.bears(t)
            asked = names & TIME_DEPENDENT if state == before and not gone else names
            before = None if gone else state
            if asked != names:
                tracks.carry(past.history.view.query_id, place, asked)
            if view is None or gone or not asked:
                continue
            verdict = past.history.verdict(view, t)
            for reading in query_samples(view, verdict, t, counters.totals, asked):
                tracks.add(view.query_id, place, (reading.metric.name, reading.labels, float(reading.value)))


def _slot(at: float, step: float) -> int:
    return math.floor(at / step + 1e-9)


def _share(name: str) -> float:
    return LIFECYCLE_FACTOR if name in LIFECYCLE_METRICS else DEEP_FACTOR if name in DEEP else 1.0


def replayable(name: str) -> bool:
    """Whether stored events tell this metric."""
    return name.startswith(PREFIX) and name not in NOT_REPLAYABLE


def may_match(matchers: Sequence[Matcher], view: QueryView) -> bool:
    """False where the labels that every series of the query has rule it out."""
    labels = query_labels(view)
    return all(matcher.matches(labels) for matcher in matchers if matcher.name in labels)


@dataclass
class _MetricRows:
    """The series of one metric: their labels, and their values at each place."""

    places: int
    labels: list[Labels] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)

    @property
    def values(self) -> Floats:
        return np.array(self.rows).reshape(len(self.rows), self.places)

    def append(self, labels: Labels) -> Floats:
        row = np.full(self.places, np.nan)
        self.labels.append(labels)
        self.rows.append(row)
        return row


class _ReplayedRows:
    """Series that come in query by query, by metric."""

    def __init__(self, places: int):
        self._places = places
        self.of: dict[str, _MetricRows] = {}
        self._rows: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Floats]] = {}

    def add(self, query_id: str, place: int, told: NamedSample) -> None:
        name, labels, value = told
        rows = self._rows.setdefault(query_id, {})
        key = name, frozenset(labels.items())
        row = rows.get(key)
        if row is None:
            row = rows[key] = self.of.setdefault(name, _MetricRows(self._places)).append(labels)
        row[place] = value

    def carry(self, query_id: str, place: int, but: frozenset[str]) -> None:
        """A query's values are those of the place before, but for these metrics."""
        for (name, _), row in self._rows.get(query_id, {}).items():
            if name not in but:
                row[place] = row[place - 1]

    def told(self, place: int) -> Iterator[NamedSample]:
        for name, track in self.of.items():
            for labels, row in zip(track.labels, track.rows, strict=True):
                if not math.isnan(row[place]):
                    yield name, labels, float(row[place])
