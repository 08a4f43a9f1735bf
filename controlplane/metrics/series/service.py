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
from pathlib import Path

from sqlalchemy.engine import Connection

from alerts.promql.series import METRIC_NAME, Series, SeriesSource
from alerts.rules.model import RuleGroup
from controlplane.events.window import Window
from controlplane.health.verdicts import VerdictLog
from controlplane.metrics.baselines import BaselineStore
from controlplane.metrics.samples import Wanted
from controlplane.metrics.series import selection, snapshot
from controlplane.metrics.series.baseline_series import BaselineSeries
from controlplane.metrics.series.grid import MAX_SERIES, STEP_SECONDS, Grid, NamedSample
from controlplane.metrics.series.replay import SeriesReplay
from controlplane.metrics.series.scrape import ServerMetrics, all_samples
from controlplane.metrics.series.sources import GridWithHistory, LiveSource

log = logging.getLogger(__name__)
SNAPSHOT = "series.npz"
#: Time limit for filling the grid before the rules start.
FILL_SECONDS = 10.0


@dataclass(frozen=True)
class GridStats:
    """The size of the grid. `refused`: series refused by the limit; `seconds`: duration of the last scrape."""

    series: int = 0
    bytes: int = 0
    refused: int = 0
    seconds: float = 0.0


class SeriesService:
    """Creates the series sources of the server. Times are Unix seconds.

    `beyond`: builds, from the replay, the time and a list for notes, the source over the store and the
    archive.
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
    ):
        self._baselines = baselines or BaselineStore()
        self._beyond = beyond
        self._window, self._verdicts, self._clock = window, verdicts, clock
        self._own_figures, self._file = own_figures, data_dir / SNAPSHOT
        self.step = step
        self.grid = Grid({}, step, max_series)
        self.replay = SeriesReplay(reading, window, clock, step)
        self._lock = threading.Lock()
        self._recorded: dict[str, tuple[NamedSample, ...]] = {}
        self._seconds = 0.0

    def keep(self, kept: Mapping[str, float]) -> None:
        """Keep these metrics for this many seconds; samples already held are preserved."""
        self.grid.keep(kept)

    def keep_for(self, groups: Sequence[RuleGroup]) -> None:
        """Keep what these rule groups read; the log names rules that read more than the grid keeps."""
        chosen = selection.retention_for(groups, self.step)
        for rule in chosen.beyond:
            log.warning(
                "rule %s reads more history than the server keeps in memory: %s", rule.name, rule.expr
            )
        self.keep(chosen.seconds)

    # -- writing ---------------------------------------------------------------------------------

    def scrape(self, at: float) -> None:
        """Store the current samples in the grid, in the slot of `at`, a multiple of the step."""
        began = time.perf_counter()
        self.grid.put(at, self._samples(max(at, self._clock()), self.grid.names))
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
        with_baselines = BaselineSeries(before, self._baselines, self._window.fleet, self.step, now)
        past = GridWithHistory(self.grid, with_baselines, now)
        return LiveSource(past, now, lambda wanted: self._samples(now, wanted))

    def rules_source(self, now: float, live: bool) -> SeriesSource:
        """The source of rules: the grid alone; with `live`, the values at `now` added."""
        if not live:
            return self.grid
        return LiveSource(self.grid, now, lambda wanted: self._samples(now, wanted))

    def figures(self) -> GridStats:
        """The size of the grid."""
        return GridStats(self.grid.series_count, self.grid.bytes, self.grid.refused, self._seconds)

    def _samples(self, now: float, wanted: Wanted) -> Iterator[NamedSample]:
        views = self._window.fleet()
        found = all_samples(
            views,
            self._verdicts.all(views, now),
            self._window.agents(),
            self._window.totals,
            lambda agent: self._window.agent_info(agent).get("heartbeat", {}),
            self._own_figures(),
            now,
            wanted,
        )
        for sample in found:
            yield sample.metric.name, sample.labels, float(sample.value)
        for sample in self._baselines.samples(views, now, wanted):
            yield sample.metric.name, sample.labels, sample.value
        yield from self._latest(wanted)

    def _latest(self, wanted: Wanted) -> Iterable[NamedSample]:
        with self._lock:
            recorded = [sample for group in self._recorded.values() for sample in group]
        return (sample for sample in recorded if wanted is None or sample[0] in wanted)

    # -- over a restart --------------------------------------------------------------------------

    def load(self) -> None:
        """After a start, once the rules are loaded: load the saved grid and fill what was missed since."""
        now = self._clock()
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

    def save(self) -> None:
        """Save the grid for the next start; a failure is logged."""
        try:
            snapshot.save(self.grid, self._file)
        except OSError as error:
            log.error("cannot save the series; they will be rebuilt from events at the next start: %s", error)


def _last_sample(series: Series) -> NamedSample:
    labels = {name: value for name, value in series.labels.items() if name != METRIC_NAME}
    return series.labels[METRIC_NAME], labels, float(series.values[-1])
