"""The server's own series, as rules and the query API read them: the grid, and stored events for older times.

`scrape` runs once a step on one thread; sources may be created and read on any thread. Built by
`controlplane.app`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from alerts.promql.label_sets import Integers
from alerts.promql.limits import paced
from alerts.promql.series import METRIC_NAME, Floats, Series, SeriesSource
from alerts.rules.model import RuleGroup
from controlplane.errors import StoreUnavailable
from controlplane.events.window import Window
from controlplane.health.verdicts import VerdictLog
from controlplane.metrics.baselines import BaselineStore
from controlplane.metrics.samples import LIFECYCLE_METRICS, Wanted, query_samples
from controlplane.metrics.series import selection, snapshot
from controlplane.metrics.series.baseline_series import BaselineSeries
from controlplane.metrics.series.grid import MAX_SERIES, STEP_SECONDS, Grid, NamedSample
from controlplane.metrics.series.replay import SeriesReplay
from controlplane.metrics.series.sampler import FleetSampler
from controlplane.metrics.series.scrape import (
    UNJUDGED,
    ServerMetrics,
    other_samples,
    query_metrics,
    reads_queries,
)
from controlplane.metrics.series.sources import GridWithHistory, LiveSource
from controlplane.metrics.series.stored_samples import MIN_KEPT_SECONDS, StoredSamples, stored_names
from controlplane.model import QueryView, Verdict
from listeners.protocol.catalogue import PREFIX, SERVER

log = logging.getLogger(__name__)
SNAPSHOT = "series.npz"
#: Time limit for filling the grid before the rules start.
FILL_SECONDS = 10.0
#: Metrics of queries that rules read live: those that are evaluated when a status changes.
LIVE_METRICS = LIFECYCLE_METRICS


@dataclass(frozen=True)
class GridStats:
    """The size of the grid. `refused`: series refused by the limit; `seconds`: duration of the last scrape."""

    series: int = 0
    bytes: int = 0
    refused: int = 0
    seconds: float = 0.0


#: Metrics of the server without labels, kept for the Server page, and for how long. Nothing else could replay them.
OWN_METRICS = frozenset(metric.name for metric in SERVER if not metric.labels)
OWN_KEPT_SECONDS = 3 * 3600.0
#: Metrics of the fleet dashboard in `deploy/grafana`, and for how long they are kept: for its default range and the
#: longest look-back on it. A replay of a thousand queries over an hour would be refused.
FLEET_METRICS = {
    **dict.fromkeys(
        (
            *(PREFIX + "query_status", PREFIX + "input_rows_total", PREFIX + "utilization_ratio"),
            *(PREFIX + "source_lag_rows", PREFIX + "source_lag_seconds"),
        ),
        3900.0,
    ),
    **dict.fromkeys((PREFIX + "query_starts_total", PREFIX + "query_failures_total"), 7500.0),
}


class SeriesService:
    """Creates the series sources of the server. Times are Unix seconds.

    `beyond`: builds, from the replay, the time and a list for notes, the source over the store and the
    archive. `stored`: the past of series that cannot be replayed.
    """

    def __init__(
        self,
        window: Window,
        verdicts: VerdictLog,
        clock: Callable[[], float],
        own_figures: Callable[[], ServerMetrics],
        reading: Callable[[], AbstractContextManager[Connection]],
        data_dir: Path,
        step: float = STEP_SECONDS,
        max_series: int = MAX_SERIES,
        beyond: Callable[[SeriesReplay, float, list[str]], SeriesSource] | None = None,
        baselines: BaselineStore | None = None,
        stored: StoredSamples | None = None,
    ):
        self._stored = stored
        self._baselines = baselines or BaselineStore()
        self._beyond = beyond
        self._window, self._verdicts, self._clock = window, verdicts, clock
        self._own_figures, self._file = own_figures, data_dir / SNAPSHOT
        self.step = step
        self.grid = Grid({}, step, max_series)
        self.replay = SeriesReplay(reading, window, clock, step)
        self._lock = threading.Lock()
        self._sampler, self._live_sampler = FleetSampler(window.totals), FleetSampler(window.totals)
        self._recorded: dict[str, tuple[NamedSample, ...]] = {}
        self._seconds = 0.0
        self._loaded = False

    def keep(self, kept: Mapping[str, float]) -> None:
        """Keep these metrics for this many seconds; samples already held are preserved."""
        self.grid.keep(kept)

    def keep_for(self, groups: Sequence[RuleGroup]) -> None:
        """Keep what these rule groups read; the log names rules that read more than the grid keeps."""
        chosen = selection.retention_for(groups, self.step)
        fleet = {name: max(chosen.seconds.get(name, 0.0), kept) for name, kept in FLEET_METRICS.items()}
        kept = {**dict.fromkeys(OWN_METRICS, OWN_KEPT_SECONDS), **chosen.seconds, **fleet}
        for rule in chosen.beyond:
            log.warning(
                "rule %s reads more history than the server keeps in memory: %s", rule.name, rule.expr
            )
        if self._stored is None:
            self.keep(kept)
            return
        names = self._stored.names = stored_names(groups)
        self.keep(
            {
                **kept,
                **{name: max(kept.get(name, 0.0), MIN_KEPT_SECONDS) for name in names},
            }
        )

    # -- writing ---------------------------------------------------------------------------------

    def scrape(self, at: float) -> None:
        """Store the current samples in the grid, in the slot of `at`, a multiple of the step."""
        began = time.perf_counter()
        self.grid.put_numbers(at, *self._numbers(self._sampler, max(at, self._clock()), self.grid.names))
        self._seconds = time.perf_counter() - began

    def record(self, group_key: str, series: Sequence[Series]) -> None:
        """Store the series recorded by a rule group; every scrape includes them until its next evaluation."""
        samples = tuple(_last_sample(item) for item in series if len(item.values))
        with self._lock:
            self._recorded[group_key] = samples

    def forget(self, group_key: str) -> None:
        """Remove the series of a group that no longer exists."""
        with self._lock:
            self._recorded.pop(group_key, None)

    # -- reading ---------------------------------------------------------------------------------

    def live(self, now: float) -> list[NamedSample]:
        """All samples that a scrape at `now` would hold."""
        return list(self._samples(now, None))

    def source(self, now: float, notes: list[str] | None = None) -> SeriesSource:
        """The source of the query API: any metric at any time up to `now`.

        `notes` collects remarks for the client.
        """
        remarks: list[str] = [] if notes is None else notes
        before = self.replay if self._beyond is None else self._beyond(self.replay, now, remarks)
        before = before if self._stored is None else self._stored.before(before, remarks)
        with_baselines = BaselineSeries(before, self._baselines, self._window.fleet, self.step, now)
        past = GridWithHistory(self.grid, with_baselines, now)
        return LiveSource(past, now, lambda wanted: self._samples(now, wanted))

    def rules_source(self, now: float, live: bool, together: frozenset[str] = LIVE_METRICS) -> SeriesSource:
        """The source of rules: the grid alone; with `live`, the values at `now` added.

        `together`: metrics that are computed at once when one of them is read, as each computation goes over the fleet.
        """
        if not live:
            return self.grid
        columns = cache(lambda names: self._numbers(self._live_sampler, now, names))
        return LiveSource(
            self.grid,
            now,
            lambda wanted: self._samples(now, wanted),
            lambda name: columns(together & self.grid.names if name in together else frozenset({name})),
        )

    def figures(self) -> GridStats:
        """The size of the grid."""
        return GridStats(self.grid.series_count, self.grid.bytes, self.grid.refused, self._seconds)

    def _numbers(self, sampler: FleetSampler, now: float, names: frozenset[str]) -> tuple[Integers, Floats]:
        """The samples of these metrics as numbers of the grid's label sets, and values."""
        views, sets = self._window.fleet(), self.grid.label_sets
        verdicts = self._verdicts.all(views, now)
        own = query_metrics(names)
        of_queries = sampler.sample(views, verdicts, now, own, sets) if own else None
        others = list(self._other_samples(views, verdicts, now, names))
        numbers = np.array(
            [sets.number({METRIC_NAME: name, **labels}) for name, labels, _ in others], np.int64
        )
        values = np.array([value for _, _, value in others], np.float64)
        if of_queries is None:
            return numbers, values
        return np.concatenate([of_queries[0], numbers]), np.concatenate([of_queries[1], values])

    def _samples(self, now: float, wanted: Wanted) -> Iterator[NamedSample]:
        views = self._window.fleet()
        verdicts = self._verdicts.all(views, now)
        if reads_queries(wanted):
            for view in paced(views):
                verdict = verdicts.get(view.query_id, UNJUDGED)
                for sample in query_samples(view, verdict, now, self._window.totals(view.query_id), wanted):
                    yield sample.metric.name, sample.labels, float(sample.value)
        yield from self._other_samples(views, verdicts, now, wanted)

    def _other_samples(
        self, views: Sequence[QueryView], verdicts: Mapping[str, Verdict], now: float, wanted: Wanted
    ) -> Iterator[NamedSample]:
        """What is not of queries alone: samples of agents and the server, baselines, recorded series."""

        def heartbeat_of(agent: str) -> Mapping[str, Any]:
            return self._window.agent_info(agent).get("heartbeat", {})

        statuses = [verdicts[view.query_id].status for view in views if view.query_id in verdicts]
        own = other_samples(statuses, self._window.agents(), heartbeat_of, self._own_figures(), wanted)
        for sample in chain(own, self._baselines.samples(views, now, wanted)):
            yield sample.metric.name, sample.labels, float(sample.value)
        yield from self._latest(wanted)

    def _latest(self, wanted: Wanted) -> Iterable[NamedSample]:
        with self._lock:
            recorded = [sample for group in self._recorded.values() for sample in group]
        return (sample for sample in recorded if wanted is None or sample[0] in wanted)

    # -- over a restart --------------------------------------------------------------------------

    def load(self) -> None:
        """After a start, once the rules are loaded: load the saved grid and fill what was missed since.

        Later calls only fill: the grid of a standby is newer than the saved one.
        """
        if self._loaded:
            return self.fill()
        self._loaded, now = True, self._clock()
        saved = snapshot.load(self.grid, self._file, now)
        log.info("series: last saved %s", "never" if saved is None else f"{now - saved:.0f} s ago")
        self.fill()

    def fill(self) -> None:
        """Fill unsampled slots from stored events, after a start and for new rules."""
        began = time.perf_counter()
        filled, missed = self.replay.fill(self.grid, self._clock(), FILL_SECONDS)
        log.info(
            "series: %d in memory; %d of %d missing slots filled from events in %.1f s",
            self.grid.series_count,
            filled,
            missed,
            time.perf_counter() - began,
        )

    def prune(self, cutoff: float) -> None:
        """Delete stored samples from before `cutoff` (Unix seconds)."""
        if self._stored is not None:
            self._stored.prune(cutoff)

    def save(self) -> None:
        """Save the grid for the next start, and to the store what cannot be computed again; a failure is logged."""
        try:
            if self._stored is not None:
                self._stored.save(self.grid, self.grid.oldest, self._clock())
            snapshot.save(self.grid, self._file)
        except (OSError, StoreUnavailable) as error:
            log.error("cannot save the series; they will be rebuilt from events at the next start: %s", error)


def _last_sample(series: Series) -> NamedSample:
    labels = {name: value for name, value in series.labels.items() if name != METRIC_NAME}
    return series.labels[METRIC_NAME], labels, float(series.values[-1])
