"""Progress of one query over any range: reports of the store and of the lake, and rollups where they suffice.

Each report appears once. Called by `controlplane.api`. Without a lake only the store's reports are read.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
from sqlalchemy.engine import Connection

from controlplane.events import progress
from controlplane.history.archive import Archive, between, where_queries
from controlplane.history.federated_series import plan_days
from controlplane.history.lake_series import BUCKET_SECONDS
from controlplane.history.model import ProgressPoint, ProgressRequest, ProgressSeries
from controlplane.history.progress_samples import to_rows, to_seconds
from controlplane.model import ProgressSample
from controlplane.store import offload_marks
from controlplane.store import queries as query_rows
from listeners.protocol.wire import rfc3339

HOUR = 3600.0
UNITS = ((86400.0, "days"), (HOUR, "hours"), (60.0, "minutes"))
#: Up to this number the lake's reports are read in full; beyond it only from `progress`.
MAX_FULL_REPORTS = 20_000
PROGRESS_COLUMNS = (
    "reported_at",
    "trigger_at",
    "run_id",
    "batch_id",
    "duration_ms",
    "input_rows",
    "output_rows",
    "input_rows_per_second",
    "processed_rows_per_second",
    "lag_rows",
    "state_rows",
    "state_bytes",
    "watermark",
)
ROLLUP_FIELDS = {
    "bucket_at": "bucket_at",
    "duration_seconds_p50": "duration",
    "input_rows": "input_rows",
    "output_rows": "output_rows",
    "input_rows_per_second_p50": "input_rows_per_second",
    "processed_rows_per_second_p50": "processed_rows_per_second",
    "lag_rows_p50": "lag_rows",
    "state_rows_last": "state_rows",
    "state_bytes_last": "state_bytes",
}


@dataclass(frozen=True)
class _PointRef:
    """A report that was not read yet (an event of the store or a row of the lake's index), or a point."""

    at: float
    key: tuple[int, int] = (0, 0)
    event: int | None = None
    row: int | None = None
    point: ProgressPoint | None = field(default=None, compare=False)


def read_progress(
    reading: Callable[[], AbstractContextManager[Connection]], archive: Archive, request: ProgressRequest
) -> ProgressSeries:
    """Read from store and lake. LakeError where the lake cannot be read, TooCostly where the range is too
    large.
    """
    with reading() as connection:
        complete_since = offload_marks.complete_since(connection, request.query_id)
        stored = [
            _PointRef(row.at, (row.batch_id, round(row.trigger_at * 1000)), event=row.event_id)
            for row in query_rows.report_index(connection, request.query_id, request.start, request.end)
        ]
    lake_end = request.end if complete_since is None else min(request.end, complete_since)
    index, points, rollup_days = (
        _from_lake(archive, request, lake_end) if request.start <= lake_end else (None, [], set())
    )
    points = _widen(
        points, max(request.step or 0.0, _required_width(points, len(stored), index, request.limit))
    )
    refs = [*_merged(stored, index), *(_PointRef(point.at, point=point) for point in points)]
    kept = query_rows.thin(_thin_to_step(sorted(refs, key=lambda ref: ref.at), request.step), request.limit)
    resolved = _resolve(reading, archive, request.query_id, kept, index)
    resolution = max((point.resolution for point in points if point.resolution), default=None)
    return ProgressSeries(resolved, resolution, _notes(points, rollup_days))


def _from_lake(
    archive: Archive, request: ProgressRequest, lake_end: float
) -> tuple[pa.Table | None, list[ProgressPoint], set[date]]:
    """The index of reports to read in full, points of the others, and the days read from rollups."""
    start, end = request.start - 1e-6, lake_end
    days = archive.days("progress", start - 86400.0, end)
    rollup_days = {table: archive.days(table, start, end) for table in BUCKET_SECONDS}
    plan = plan_days(request.end - request.start, days, rollup_days)
    points = [
        point
        for table, some in plan.rolled.items()
        for point in _rollup_points(archive, request.query_id, table, some)
        if start < point.at <= end
    ]
    rolled_up_days = {day for some in plan.rolled.values() for day in some}
    raw = [day for day in plan.raw if day not in rolled_up_days]
    index = between(archive.index_days(request.query_id, raw), "reported_at", start, end)
    if index.num_rows <= MAX_FULL_REPORTS:
        return index, points, rolled_up_days
    return None, [*points, *_raw_points(archive, request.query_id, raw, start, end)], rolled_up_days


def _rollup_points(
    archive: Archive, query_id: str, table: str, days: Sequence[date]
) -> Iterator[ProgressPoint]:
    width = BUCKET_SECONDS[table]
    for row in to_rows(archive.table(table, tuple(ROLLUP_FIELDS), days, where_queries([query_id]))):
        values: dict[str, Any] = {name: row[column] for column, name in ROLLUP_FIELDS.items()}
        begin = values.pop("bucket_at") / 1e6
        for name in ("state_rows", "state_bytes"):
            values[name] = None if values[name] is None else round(values[name])
        values |= {"duration": values["duration"] or 0.0, "input_rows": values["input_rows"] or 0}
        yield ProgressPoint(begin + width / 2, begin, "", -1, **values, resolution=width)


def _required_width(
    points: Sequence[ProgressPoint], stored: int, index: pa.Table | None, limit: int
) -> float:
    """Bucket width in seconds at which all points are within the limit; 0 where they are already."""
    if len(points) + stored + (index.num_rows if index is not None else 0) <= limit:
        return 0.0
    times = [point.at for point in points if point.resolution]
    return (max(times) - min(times)) / max(1, limit) if times else 0.0


def _widen(points: list[ProgressPoint], step: float) -> list[ProgressPoint]:
    """Merge points of buckets much shorter than `step` into longer buckets.

    Picking one bucket per step instead would sample a fixed time of day and show a false rhythm.
    """
    width = HOUR * math.ceil(step / HOUR) if step > HOUR else 60.0 * math.ceil(step / 60)
    found: list[ProgressPoint] = []
    longer: dict[float, list[ProgressPoint]] = {}
    for point in sorted(points, key=lambda item: item.at):
        if point.resolution and point.resolution < width:
            longer.setdefault(point.trigger_at // width, []).append(point)
        else:
            found.append(point)
    return [*found, *(_merge_points(some, width) for some in longer.values())]


def _merge_points(points: list[ProgressPoint], width: float) -> ProgressPoint:
    """One point of a longer bucket: median of medians, last state values, total rows."""
    busy = [point for point in points if point.duration > 0] or points

    def last_of(name: str) -> Any:
        return next(
            (value for point in reversed(points) if (value := getattr(point, name)) is not None), None
        )

    def median_of(name: str) -> float | None:
        values = [value for item in busy if (value := getattr(item, name)) is not None]
        return statistics.median(values) if values else None

    written = [item.output_rows for item in points if item.output_rows is not None]
    return ProgressPoint(
        at=(points[0].at + points[-1].at) / 2,
        trigger_at=points[0].trigger_at,
        run_id="",
        batch_id=-1,
        duration=median_of("duration") or 0.0,
        input_rows=sum(item.input_rows for item in points),
        output_rows=sum(written) if written else None,
        input_rows_per_second=median_of("input_rows_per_second"),
        processed_rows_per_second=median_of("processed_rows_per_second"),
        lag_rows=median_of("lag_rows"),
        state_rows=last_of("state_rows"),
        state_bytes=last_of("state_bytes"),
        resolution=width,
    )


def _raw_points(
    archive: Archive, query_id: str, days: Sequence[date], start: float, end: float
) -> Iterator[ProgressPoint]:
    rows = between(
        archive.table("progress", PROGRESS_COLUMNS, days, where_queries([query_id])),
        "reported_at",
        start,
        end,
    )
    for row in to_rows(rows):
        at, trigger_at, watermark = (
            to_seconds(row.pop(name)) for name in ("reported_at", "trigger_at", "watermark")
        )
        duration = (row.pop("duration_ms") or 0) / 1000
        row["input_rows"] = row["input_rows"] or 0
        yield ProgressPoint(
            at=at or 0.0, trigger_at=trigger_at or 0.0, duration=duration, watermark=watermark, **row
        )


def _merged(stored: Sequence[_PointRef], index: pa.Table | None) -> list[_PointRef]:
    """Reports of both, each once: late reports may be in both."""
    found = {ref.key: ref for ref in stored}
    if index is not None:
        for place, row in enumerate(to_rows(index)):
            key = row["batch_id"], round(row["trigger_at"] / 1000)
            if key not in found:
                found[key] = _PointRef(row["reported_at"] / 1e6, key, row=place)
    return sorted(found.values(), key=lambda ref: (ref.at, ref.key[1], ref.key[0]))


def _thin_to_step(refs: list[_PointRef], step: float | None) -> list[_PointRef]:
    if step is None:
        return refs
    # At the boundary keep one bucket and one report per step.
    return list({(ref.at // step, ref.point is None): ref for ref in refs}.values())


def _resolve(
    reading: Callable[[], AbstractContextManager[Connection]],
    archive: Archive,
    query_id: str,
    refs: Sequence[_PointRef],
    index: pa.Table | None,
) -> list[ProgressPoint | ProgressSample]:
    events = [ref.event for ref in refs if ref.event is not None]
    with reading() as connection:
        samples = progress.samples(query_rows.reports_of(connection, events))
    places = [ref.row for ref in refs if ref.row is not None]
    if index is not None and places:
        samples += archive.read_samples(query_id, index.take(places))
    points: list[ProgressPoint | ProgressSample] = [
        *samples,
        *(ref.point for ref in refs if ref.point is not None),
    ]
    return sorted(points, key=lambda point: (point.at, point.trigger_at, point.batch_id))


def _notes(points: Sequence[ProgressPoint], rollup_days: set[date]) -> tuple[str, ...]:
    coarse = [point for point in points if point.resolution]
    if not coarse:
        return ()
    last_of = max(point.at + (point.at - point.trigger_at) for point in coarse)  # `at` is the middle
    longest = max(point.resolution or 0.0 for point in coarse)
    return (
        f"up to {rfc3339(last_of)} the points are medians of {_unit_text(longest)} on "
        f"{len(rollup_days)} days",
    )


def _unit_text(seconds: float) -> str:
    """A duration as `hours` or `6 hours`."""
    unit, name = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    many = seconds / unit
    return name if many == 1 else f"{many:g} {name}"
