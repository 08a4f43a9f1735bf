"""Baselines as time series: the baseline of the hour of the week into which each time falls.

`controlplane.metrics.series.service` adds them to the stored history. Past hours show the current baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from alerts.matching.labels import Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, Floats, Series, SeriesSource
from controlplane.metrics.baselines import NAMES, BaselineStore, hours_of_week
from controlplane.metrics.samples import query_labels
from controlplane.metrics.series.sources import exact_name
from controlplane.model import QueryView
from listeners.protocol.catalogue import BY_NAME

#: Limit of samples for one selection.
MAX_SAMPLES = 5_000_000


class BaselineSeries:
    """A source that computes baseline metrics and delegates every other metric to `source`."""

    def __init__(
        self,
        source: SeriesSource,
        baselines: BaselineStore,
        views: Callable[[], Iterable[QueryView]],
        step: float,
        now: float,
    ):
        self._source, self._baselines, self._views = source, baselines, views
        self._step, self._now = step, now

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        name = exact_name(matchers)
        if name not in NAMES:
            return self._source.select(matchers, start, end)
        found: list[Series] = []
        for view in self._views():
            times = self._times(max(start, view.first_seen_at), min(end, self._now))
            if len(times):
                found += self._of(view, str(name), matchers, times)
                if sum(len(series.times) for series in found) > MAX_SAMPLES:
                    raise LimitExceeded('too many baselines; select one query, as in NAME{query="…"}')
        return found

    def _times(self, start: float, end: float) -> Floats:
        """Slots with start < t <= end."""
        first, last = math.floor(start / self._step) + 1, math.floor(end / self._step)
        times: Floats = np.arange(first, last + 1).astype(np.float64) * self._step
        return times

    def _of(self, view: QueryView, name: str, matchers: Sequence[Matcher], times: Floats) -> Iterable[Series]:
        baseline = self._baselines.of(view) if view.retired_at is None else None
        if baseline is None:
            return
        labels = {METRIC_NAME: name, **query_labels(view)}
        for label, values in baseline.of(BY_NAME[name]).items():
            own = {**labels, "quantile": label}
            if matches(matchers, own):
                typical = values[hours_of_week(times)].astype(float)
                known = np.isfinite(typical)
                if bool(known.any()):
                    yield Series(own, times[known], typical[known])
