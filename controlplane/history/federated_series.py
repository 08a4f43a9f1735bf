"""Series of any range: from the store where it has the data, from the lake before that.

Short ranges are computed exactly, from reports of both. Longer ranges use a coarser grid, and times before
the store's oldest events come from the lake's rollups. Created by `controlplane.metrics.series.service`, once
per request.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow.compute as pc
from sqlalchemy.engine import Connection

from alerts.durations import DAY_SECONDS
from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, Floats, Series
from controlplane.errors import LakeError
from controlplane.events.window import Window
from controlplane.history import lake_series
from controlplane.history.archive import Archive, where_queries
from controlplane.history.lake_cache import RowFilter
from controlplane.history.lake_series import BUCKET_SECONDS, METRIC_COLUMNS, Spans
from controlplane.metrics.samples import LIFECYCLE_METRICS, query_labels
from controlplane.metrics.series.blocks import series_of_rows
from controlplane.metrics.series.replay import SeriesReplay, may_match, replayable
from controlplane.metrics.series.sources import exact_name, join_series
from controlplane.model import QueryView
from controlplane.store import offload_marks
from listeners.protocol.wire import rfc3339

log = logging.getLogger(__name__)
#: Step of long ranges, in seconds: each lookback and each five-minute rate still contains two samples.
COARSE_STEP_SECONDS = 120.0
#: Limits of the range, in seconds: above the first the grid is coarse, above the second minute rollups
#: replace reports, above the third hour rollups replace minute rollups, where rollups exist.
MAX_FINE_RANGE_SECONDS, MAX_RAW_RANGE_SECONDS, MAX_MINUTE_RANGE_SECONDS = (
    DAY_SECONDS / 4,
    2 * DAY_SECONDS,
    7 * DAY_SECONDS,
)
#: Values in one answer, and days times queries whose reports are read for it.
MAX_POINTS, MAX_RAW_QUERY_DAYS = 12_000_000, 400
ROLLUP_ADVICE = "run `controlplane history rollup`, or ask for fewer queries or a shorter time"


@dataclass(frozen=True)
class SeriesBackends:
    """The backends of a federated source. `exact` and `coarse` replay store and lake on the two grids."""

    exact: SeriesReplay
    coarse: SeriesReplay
    archive: Archive
    window: Window
    reading: Callable[[], AbstractContextManager[Connection]]
    retention_seconds: float


@dataclass
class FederatedSeries:
    """A SeriesSource for one request at `now`. `notes` collects warnings about the answer."""

    backends: SeriesBackends
    now: float
    notes: list[str] = field(default_factory=list)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        """As `SeriesReplay.select`, further back. Where the lake cannot be read: the store's series, and a
        note.
        """
        name = exact_name(matchers)
        if name is None or not replayable(name):
            return self.backends.exact.select(matchers, start, end)
        try:
            return self._select(name, matchers, start, end)
        except LakeError as error:
            self._note(f"times before the store's oldest events are missing: {error}")
            return self.backends.exact.over(None).select(matchers, start, end)

    def _select(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        with self.backends.reading() as connection:
            complete_since = offload_marks.store_complete_since(connection)
        strange = self._unknown_queries(matchers)
        if strange:
            return self._from_lake(name, matchers, start, min(end, self.now), strange, {})
        views = {view.query_id: view for view in self.backends.window.views() if may_match(matchers, view)}
        imported = self._imported(views.values(), start, complete_since)
        # Runs are kept for the retention period: within it everything can be recomputed from them.
        if not imported and (start >= self.now - self.backends.retention_seconds or complete_since <= start):
            try:
                return self.backends.exact.select(matchers, start, end)
            except LimitExceeded:
                if end - start <= MAX_FINE_RANGE_SECONDS:
                    raise
        recent = self.backends.exact if end - start <= MAX_FINE_RANGE_SECONDS else self.backends.coarse
        known = self.now - self.backends.retention_seconds
        if (
            name in LIFECYCLE_METRICS and known < complete_since
        ):  # runs and statuses are kept longer than events
            with contextlib.suppress(LimitExceeded):
                return self._stitched(
                    name, matchers, start, end, views, _boundaries(views, known, imported), recent
                )
        return self._stitched(
            name, matchers, start, end, views, _boundaries(views, complete_since, imported), recent
        )

    def _imported(self, views: Iterable[QueryView], start: float, complete_since: float) -> dict[str, float]:
        """Queries that the lake knows from before the server first saw them, with the time of that."""
        young = {
            view.query_id: view.first_seen_at
            for view in views
            if view.first_seen_at > max(start, complete_since)
        }
        archive = self.backends.archive
        days = archive.days("progress", start, max(young.values())) if young else []
        if not days:
            return {}
        rows = archive.table("progress", ("query_id", "reported_at"), days, where_queries(list(young)))
        first = rows.group_by("query_id").aggregate([("reported_at", "min")])
        rows_by_query = zip(
            first["query_id"].to_pylist(), first["reported_at_min"].cast("int64").to_pylist(), strict=True
        )
        return {item: young[item] for item, at in rows_by_query if at / 1e6 < young[item]}

    def _stitched(
        self,
        name: str,
        matchers: Sequence[Matcher],
        start: float,
        end: float,
        views: Mapping[str, QueryView],
        boundaries: Mapping[str, float],
        replay: SeriesReplay,
    ) -> list[Series]:
        """Each query's series from the lake up to its boundary, and from the store after it."""
        step = replay.step
        slots = {item: math.ceil(at / step) * step for item, at in boundaries.items()}
        first, last = min(slots.values(), default=0.0), max(slots.values(), default=0.0)
        # Start one slot before the first boundary: counters are computed backwards from there.
        recent = list(replay.select(matchers, max(start, first - 1.5 * step), end)) if first <= end else []
        if last <= start:
            return recent
        totals = (
            _counter_totals(recent, slots, step)
            if name in METRIC_COLUMNS and METRIC_COLUMNS[name].is_counter
            else {}
        )
        older = self._from_lake(name, matchers, start, min(end, last - step), views, totals)
        found: list[Series] = []
        for boundary in sorted(set(slots.values())):
            of_seam = [
                [item for item in some if slots.get(item.labels["query_id"]) == boundary]
                for some in (older, recent)
            ]
            before = [_before(item, boundary) for item in of_seam[0]]
            found += join_series(before, of_seam[1], boundary) if boundary <= end else before
        return found

    def _unknown_queries(self, matchers: Sequence[Matcher]) -> dict[str, QueryView | None]:
        """The query that is named by its id and that the server has never seen, or forgotten."""
        named = [
            matcher.value for matcher in matchers if matcher.name == "query_id" and matcher.operator == "="
        ]
        return {named[0]: None} if named and self.backends.window.view(named[0]) is None else {}

    def _note(self, text: str) -> None:
        if text not in self.notes:
            log.debug("%s", text)
            self.notes.append(text)

    # -- the far past ----------------------------------------------------------------------------

    def _from_lake(
        self,
        name: str,
        matchers: Sequence[Matcher],
        start: float,
        end: float,
        queries: Mapping[str, QueryView | None],
        totals: Mapping[str, tuple[float, float]],
    ) -> list[Series]:
        """Series of these queries with start < t <= end, from the lake."""
        archive, figure = self.backends.archive, METRIC_COLUMNS.get(name)
        days = archive.days("progress", start, end)
        rolled = {table: archive.days(table, start, end) for table in BUCKET_SECONDS}
        if not queries or not (days or any(rolled.values())):
            return []
        if figure is None:
            self._note(f"{name} is not available before {rfc3339(end)}: the lake does not store it")
            return []
        step = COARSE_STEP_SECONDS if end - start > MAX_FINE_RANGE_SECONDS else self.backends.exact.step
        slots = np.arange(math.floor(start / step), math.floor(end / step) + 1, dtype=np.float64) * step
        if len(slots) * len(queries) > MAX_POINTS:
            raise LimitExceeded(
                f"{len(queries)} queries at {len(slots)} samples each exceed the limit: {ROLLUP_ADVICE}"
            )
        plan = plan_days(end - start, days, rolled, figure.rolled is not None, figure.raw is not None)
        if plan.raw and figure.raw is None:
            self._note(f"{name} is missing on days without rollups: {ROLLUP_ADVICE}")
        spans = self._spans(name, plan, list(queries), start, end)
        labels = self._labels(name, queries, spans, days or plan.all)
        rows = [
            lake_series.counter_values(span, slots, *totals.get(query_id, (end, None)))
            if figure.is_counter
            else lake_series.gauge_values(span, slots)
            for query_id, span in spans.items()
        ]
        values = np.array(rows).reshape(len(rows), len(slots))
        ordered = [labels[query_id] for query_id in spans]
        found = series_of_rows(ordered, values, slots, 1 if slots[0] <= start else 0)
        return [item for item in found if matches(matchers, item.labels)]

    def _spans(
        self, name: str, plan: DayPlan, query_ids: list[str], start: float, end: float
    ) -> dict[str, Spans]:
        archive, figure, where = self.backends.archive, METRIC_COLUMNS[name], where_queries(query_ids)
        backends = []
        for table, days in plan.rolled.items():
            rows = archive.table(table, lake_series.rollup_columns(figure), days, where)
            backends.append(lake_series.spans_from_rollups(name, rows, BUCKET_SECONDS[table]))
        if plan.raw and figure.raw is not None:
            if len(plan.raw) * len(query_ids) > MAX_RAW_QUERY_DAYS:
                raise LimitExceeded(
                    f"reports of {len(query_ids)} queries on {len(plan.raw)} days exceed the "
                    f"limit: {ROLLUP_ADVICE}"
                )
            rows = archive.table("progress", lake_series.raw_columns(figure), plan.raw, where)
            backends.append(lake_series.spans_from_reports(name, rows, self._ends(plan.raw, where)))
        return {
            backend: spans
            for backend, spans in lake_series.merge_spans(backends).items()
            if len(spans.starts)
        }

    def _ends(self, days: Sequence[date], where: RowFilter) -> Mapping[str, Floats]:
        """Times at which runs ended, by query."""
        over = where.and_(pc.field("event") == "terminated", "terminated")
        rows = self.backends.archive.table("lifecycle", ("query_id", "reported_at"), days, over)
        found: dict[str, list[float]] = {}
        for query_id, at in zip(
            rows["query_id"].to_pylist(), rows["reported_at"].cast("int64").to_pylist(), strict=True
        ):
            found.setdefault(query_id, []).append(at / 1e6)
        return {query_id: np.array(sorted(times)) for query_id, times in found.items()}

    def _labels(
        self,
        name: str,
        queries: Mapping[str, QueryView | None],
        spans: Mapping[str, Spans],
        days: Sequence[date],
    ) -> dict[str, Labels]:
        """The labels that the query's series have now; for a query unknown to the server, those of its
        reports.
        """
        found: dict[str, Labels] = {}
        for query_id in spans:
            view = queries[query_id]
            own = query_labels(view) if view else self._labels_from_reports(query_id, days)
            single_part = _single_label(view, METRIC_COLUMNS[name].label) if view else None
            found[query_id] = {
                METRIC_NAME: name,
                **own,
                **({METRIC_COLUMNS[name].label: single_part} if single_part else {}),
            }
        return found

    def _labels_from_reports(self, query_id: str, days: Sequence[date]) -> dict[str, str]:
        rows = self.backends.archive.table("progress", ("app", "name"), days[-1:], where_queries([query_id]))
        last = rows.slice(max(0, rows.num_rows - 1)).to_pylist()
        app, query = (last[0]["app"], last[0]["name"]) if last else (None, None)
        return {"app": app or "", "query": query or query_id[:8], "query_id": query_id}


@dataclass(frozen=True)
class DayPlan:
    """Which days are read from which rollup, and on which the reports themselves are read."""

    rolled: Mapping[str, list[date]]
    raw: list[date]

    @property
    def all(self) -> list[date]:
        """All days of the plan, sorted."""
        return sorted({day for days in self.rolled.values() for day in days} | set(self.raw))


def plan_days(
    seconds: float,
    days: Sequence[date],
    rolled: Mapping[str, Sequence[date]],
    can_be_rolled: bool = True,
    can_be_raw: bool = True,
) -> DayPlan:
    """Choose the coarsest sufficient table per day; the newest day is read from reports, as its rollup may be
    incomplete.
    """
    order: tuple[str, ...] = (
        ("rollup_1h", "rollup_1m") if seconds > MAX_MINUTE_RANGE_SECONDS else ("rollup_1m", "rollup_1h")
    )
    if not can_be_rolled or (seconds <= MAX_RAW_RANGE_SECONDS and can_be_raw and days):
        order = ()
    newest = max(days, default=None) if can_be_raw else None
    left = (set(days) | {day for table in order for day in rolled[table]}) - {newest}
    found: dict[str, list[date]] = {}
    for table in order:
        found[table] = sorted(left & set(rolled[table]))
        left -= set(found[table])
    raw = sorted((left & set(days)) | ({newest} if newest is not None else set()))
    return DayPlan({table: some for table, some in found.items() if some}, raw)


def _single_label(view: QueryView, label: str) -> str | None:
    """The label of the query's only source or operator; None for several, as the lake stores their sum."""
    last = view.progress[-1] if view.progress else None
    backends = () if last is None or not label else last.sources if label == "source" else last.operators
    return backends[0].name if len(backends) == 1 else None


def _before(series: Series, boundary: float) -> Series:
    before = series.times < boundary
    return Series(series.labels, series.times[before], series.values[before])


def _boundaries(
    views: Iterable[str], complete_since: float, imported: Mapping[str, float]
) -> dict[str, float]:
    """Query → time from which the store has its data."""
    return {view: max(complete_since, imported.get(view, 0.0)) for view in views}


def _counter_totals(
    recent: Iterable[Series], slots: Mapping[str, float], step: float
) -> dict[str, tuple[float, float]]:
    """Query → time of the slot before its boundary, and the counter's value there; 0 where the store has
    none.
    """
    found = {item: (slot - step, 0.0) for item, slot in slots.items()}
    for item in recent:
        query_id = item.labels["query_id"]
        at = found[query_id][0]
        place = int(np.searchsorted(item.times, at))
        if place < len(item.times) and item.times[place] == at and not math.isnan(item.values[place]):
            found[query_id] = at, float(item.values[place])
    return found
