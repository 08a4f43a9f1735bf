"""Baselines: typical values of each query by hour of the week, as published by the history pipeline; held in
memory.

Used by the API, the series and `/metrics`. One query takes 8 KB: 4 figures × 168 hours × 3 quantiles.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from controlplane.errors import BadRequest
from controlplane.metrics.samples import MetricSample, Wanted, query_labels
from controlplane.model import QueryView
from listeners.protocol.catalogue import BASELINE, BASELINE_PREFIX, Metric

if TYPE_CHECKING:
    from controlplane.store.baselines import StoredBaseline

#: Metrics by name without prefix, and quantiles by label, in the order of the array's axes.
FIGURES = {metric.name.removeprefix(BASELINE_PREFIX): metric for metric in BASELINE}
QUANTILES = ("0.1", "0.5", "0.9")
HOURS = 168
SHAPE = (len(FIGURES), HOURS, len(QUANTILES))
NAMES = frozenset(metric.name for metric in BASELINE)
#: The first Monday of 1970: 1 January 1970 was a Thursday.
FIRST_MONDAY, HOUR_SECONDS = 4 * 86400.0, 3600.0
#: The limit that label values of queries have.
MAX_TEXT_CHARS = 1000
#: Values stay below this limit, so that they are finite as 32-bit floats.
MAX_VALUE = 3e38
Values = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Baseline:
    """The baseline of one query.

    `values` has the shape `SHAPE`, NaN without enough data; `made_at`: Unix seconds.
    """

    query_id: str
    app: str
    query: str
    made_at: float | None
    values: Values

    def of(self, metric: Metric) -> dict[str, Values]:
        """Values by hour of the week, by quantile label."""
        place = BASELINE.index(metric)
        return {label: self.values[place, :, column] for column, label in enumerate(QUANTILES)}


def hour_of_week(at: float) -> int:
    """The hour of the week of a time in Unix seconds; 0 is Monday 00:00 UTC."""
    return int((at - FIRST_MONDAY) // HOUR_SECONDS) % HOURS


def hours_of_week(times: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The hours of the week of many times."""
    return ((times - FIRST_MONDAY) // HOUR_SECONDS).astype(np.int64) % HOURS


def from_stored(stored: StoredBaseline) -> Baseline:
    """Convert a row of the store."""
    return Baseline(stored.query_id, stored.app, stored.query, stored.made_at, stored.values.reshape(SHAPE))


def to_stored(baseline: Baseline) -> StoredBaseline:
    """Convert to a row of the store."""
    from controlplane.store.baselines import StoredBaseline  # here: the rollup job needs no database packages

    values = baseline.values.ravel()
    return StoredBaseline(baseline.query_id, baseline.app, baseline.query, baseline.made_at, values)


class BaselineStore:
    """The current baselines of all queries, replaced as a whole. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: Mapping[str, Baseline] = {}
        self._by_name: Mapping[tuple[str, str], Baseline] = {}

    def replace(self, baselines: Iterable[Baseline]) -> None:
        """Replace all baselines."""
        found = list(baselines)
        with self._lock:
            self._by_id = {baseline.query_id: baseline for baseline in found}
            self._by_name = {(baseline.app, baseline.query): baseline for baseline in found}

    def all(self) -> list[Baseline]:
        """All baselines, by application and name."""
        with self._lock:
            return sorted(self._by_id.values(), key=lambda b: (b.app, b.query, b.query_id))

    def of(self, view: QueryView) -> Baseline | None:
        """The baseline of a query; with a new checkpoint, that of the same application and name."""
        with self._lock:
            known = self._by_id.get(view.query_id)
            return known or (self._by_name.get((view.app, view.name)) if view.name else None)

    def by_id(self, query_id: str) -> Baseline | None:
        """The baseline published for this query id."""
        with self._lock:
            return self._by_id.get(query_id)

    def samples(
        self, views: Iterable[QueryView], now: float, wanted: Wanted = None
    ) -> Iterator[MetricSample]:
        """The baselines of the hour of `now`, for all queries that are not retired."""
        if wanted is not None and not wanted & NAMES:
            return
        hour = hour_of_week(now)
        for view in views:
            baseline = self.of(view) if view.retired_at is None else None
            if baseline is not None:
                labels = query_labels(view)
                for place, metric in enumerate(BASELINE):
                    if wanted is None or metric.name in wanted:
                        yield from _quantiles(metric, labels, baseline.values[place, hour])


def _quantiles(metric: Metric, labels: Mapping[str, str], values: Values) -> Iterator[MetricSample]:
    for quantile, value in zip(QUANTILES, values.tolist(), strict=True):
        if math.isfinite(value):
            yield MetricSample(metric, {**labels, "quantile": quantile}, value)


# -- JSON ----------------------------------------------------------------------------------------------


def from_json(document: Any, where: str) -> Baseline:
    """Parse one query's baseline;

    BadRequest names the invalid field. `where`: the path of `document` in messages.
    """
    if not isinstance(document, dict):
        raise BadRequest(f"{where} must be an object, not {type(document).__name__}")
    texts = {name: _text(document.get(name), f"{where}.{name}") for name in ("query_id", "app", "query")}
    figures = document.get("figures")
    if not isinstance(figures, dict):
        raise BadRequest(f"{where}.figures must be an object of figures by name")
    values = np.full(SHAPE, np.nan, np.float32)
    for name, quantiles in figures.items():
        place = _place(name, list(FIGURES), f"{where}.figures")
        values[place] = _figure(quantiles, f"{where}.figures.{name}")
    return Baseline(**texts, made_at=_finite(document.get("made_at"), f"{where}.made_at"), values=values)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARS:
        raise BadRequest(f"{where} must be text of 1 to {MAX_TEXT_CHARS} characters")
    return value


def _place(name: str, known: Sequence[str], where: str) -> int:
    if name not in known:
        raise BadRequest(f"{where}: {name[:80]!r} is none of {', '.join(known)}")
    return known.index(name)


def _figure(quantiles: Any, where: str) -> Values:
    """Parse an object of quantile → a value for each hour of the week."""
    if not isinstance(quantiles, dict):
        raise BadRequest(f'{where} must be an object of quantiles, as in {{"0.5": […]}}')
    values = np.full(SHAPE[1:], np.nan, np.float32)
    for quantile, hours in quantiles.items():
        place = _place(quantile, QUANTILES, where)
        if not isinstance(hours, list) or len(hours) != HOURS:
            raise BadRequest(f"{where}.{quantile} must be a list of {HOURS} values, Monday 00:00 UTC first")
        values[:, place] = [
            math.nan if (value := _finite(item, f"{where}.{quantile}[{hour}]")) is None else value
            for hour, item in enumerate(hours)
        ]
    return values


def _finite(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_VALUE:
        raise BadRequest(f"{where} must be a number or null")
    return float(value)


def to_json(baseline: Baseline) -> dict[str, Any]:
    """The JSON that `from_json` parses."""
    figures = {
        name: {
            quantile: [None if math.isnan(value) else float(f"{value:.6g}") for value in column]
            for quantile, column in zip(QUANTILES, baseline.values[place].T.tolist(), strict=True)
        }
        for place, name in enumerate(FIGURES)
    }
    texts = {"query_id": baseline.query_id, "app": baseline.app, "query": baseline.query}
    return {**texts, "made_at": baseline.made_at, "figures": figures}
