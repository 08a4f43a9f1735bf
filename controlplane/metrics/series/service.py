"""The series of this server, as rules and the query API read them: the grid, and beyond it stored events.

`scrape` runs once a step on one thread; sources may be asked for and read on any. Made by `controlplane.app`.
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
#: Seconds that filling the grid may take before the rules begin.
FILL_SECONDS = 10.0


@dataclass(frozen=True)
class GridStats:
    """How much the grid holds. `refused`: series of the last scrape that were too many; `seconds`: it took."""

    series: int = 0
    bytes: int = 0
    refused: int = 0
    seconds: float = 0.0


class SeriesService:
    """What the plane holds. Times are Unix seconds.

    `beyond`: makes of the replay, the time and a list for notes the source of what the store tells and what it has
    forgotten.
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
        most_series: int = MAX_SERIES,
        beyond: Callable[[SeriesReplay, float, list[str]], SeriesSource] | None = None,
        baselines: BaselineStore | None = None,
    ):
        self._baselines = baselines or BaselineStore()
        self._beyond = beyond
        self._window, self._verdicts, self._clock = window, verdicts, clock
        self._own_figures, self._file = own_figures, data_dir / SNAPSHOT
        self.step = step
        self.grid = Grid({}, step, most_series)
        self.replay = SeriesReplay(reading, window, clock, step)
        self._lock = threading.Lock()
        self._recorded: dict[str, tuple[NamedSample, ...]] = {}
        self._seconds = 0.0

    def keep(self, kept: Mapping[str, float]) -> None:
        """Metric names that rules read, and for how many seconds; what is held of them stays."""
        self.grid.keep(kept)

    def keep_for(self, groups: Sequence[RuleGroup]) -> None:
        """Keep what these groups of rules read; the log names rules that read more than is ever kept."""
        chosen = selection.retention_for(groups, self.step)
        for rule in chosen.beyond:
            log.warning("the rule %s reads more than the server keeps at hand: %s", rule.name, rule.expr)
        self.keep(chosen.seconds)

    # -- writing ---------------------------------------------------------------------------------

    def scrape(self, at: float) -> None:
        """Put one slot into the grid: what is known now, as of `at`, a multiple of the step."""
        began = time.perf_counter()
        self.grid.put(at, self._told(max(at, self._clock()), self.grid.names))
        self._seconds = time.perf_counter() - began

    def record(self, group_key: str, series: Sequence[Series]) -> None:
        """What a group of rules recorded: every scrape holds it until the group's next evaluation."""
        told = tuple(_as_told(one) for one in series if len(one.values))
        with self._lock:
            self._recorded[group_key] = told

    def forget(self, group_key: str) -> None:
        """The group is gone, and so are its series."""
        with self._lock:
            self._recorded.pop(group_key, None)

    # -- reading ---------------------------------------------------------------------------------

    def live(self, now: float) -> list[NamedSample]:
        """Everything that a scrape at `now` would hold, of all metrics."""
        return list(self._told(now, None))

    def source(self, now: float, notes: list[str] | None = None) -> SeriesSource:
        """For the query API: any metric, at `now` and at any time before. `notes` takes what is to be said of it."""
        told: list[str] = [] if notes is None else notes
        before = self.replay if self._beyond is None else self._beyond(self.replay, now, told)
        usual = BaselineSeries(before, self._baselines, self._window.fleet, self.step, now)
        past = GridWithHistory(self.grid, usual, now)
        return LiveSource(past, now, lambda wanted: self._told(now, wanted))

    def rules_source(self, now: float, live: bool) -> SeriesSource:
        """For rules: the grid alone; with `live`, the values at `now` laid over it."""
        if not live:
            return self.grid
        return LiveSource(self.grid, now, lambda wanted: self._told(now, wanted))

    def figures(self) -> GridStats:
        return GridStats(self.grid.series_count, self.grid.bytes, self.grid.refused, self._seconds)

    def _told(self, now: float, wanted: Wanted) -> Iterator[NamedSample]:
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
        for reading in found:
            yield reading.metric.name, reading.labels, float(reading.value)
        for reading in self._baselines.readings(views, now, wanted):
            yield reading.metric.name, reading.labels, reading.value
        yield from self._latest(wanted)

    def _latest(self, wanted: Wanted) -> Iterable[NamedSample]:
        with self._lock:
            recorded = [told for group in self._recorded.values() for told in group]
        return (told for told in recorded if wanted is None or told[0] in wanted)

    # -- over a restart --------------------------------------------------------------------------

    def load(self) -> None:
        """After a start, once the rules are known: the grid as it was saved, and what was missed since."""
        now = self._clock()
        saved = snapshot.load(self.grid, self._file, now)
        log.info("series: saved %s", "never" if saved is None else f"{now - saved:.0f} s ago")
        self.fill()

    def fill(self) -> None:
        """Make what is kept and nobody sampled from stored events: after a start, and for rules that are new."""
        began = time.perf_counter()
        filled, missed = self.replay.fill(self.grid, self._clock(), FILL_SECONDS)
        log.info(
            "series: %d at hand; %d of %d slots were made from events in %.1f s",
            self.grid.series_count,
            filled,
            missed,
            time.perf_counter() - began,
        )

    def save(self) -> None:
        """Keep the grid for the next start; a disk that does not take it is logged."""
        try:
            snapshot.save(self.grid, self._file)
        except OSError as error:
            log.error("the series cannot be saved: %s", error)


def _as_told(series: Series) -> NamedSample:
    labels = {name: value for name, value in series.labels.items() if name != METRIC_NAME}
    return series.labels[METRIC_NAME], labels, float(series.values[-1])
