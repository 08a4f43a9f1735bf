"""The progress of one query over any time: reports of the store and of the lake, and rollups where they are enough.

Each report once, wherever it is; `controlplane.api` asks. Without a lake it is the store's reports alone.
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
from controlplane.history.progress_samples import to_rows
from controlplane.history.progress_samples import to_seconds as seconds
from controlplane.model import ProgressSample
from controlplane.store import offload_marks
from controlplane.store import queries as query_rows
from listeners.protocol.wire import rfc3339

HOUR = 3600.0
UNITS = ((86400.0, "days"), (HOUR, "hours"), (60.0, "minutes"))
#: Reports of the lake that are told whole; of more, what `progress` alone tells.
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
    """A report that was not read yet: an event of the store, a row of the lake's index; or a point."""

    at: float
    key: tuple[int, int] = (0, 0)
    event: int | None = None
    row: int | None = None
    point: ProgressPoint | None = field(default=None, compare=False)


def read_progress(
    reading: Callable[[], AbstractContextManager[Connection]], archive: Archive, asked: ProgressRequest
) -> ProgressSeries:
    """From store and lake. LakeError where the lake cannot be read, TooCostly where it is too much."""
    with reading() as connection:
        since = offload_marks.complete_since(connection, asked.query_id)
        stored = [
            _PointRef(row.at, (row.batch_id, round(row.trigger_at * 1000)), event=row.event_id)
            for row in query_rows.report_index(connection, asked.query_id, asked.start, asked.end)
        ]
    horizon = asked.end if since is None else min(asked.end, since)
    index, points, rolled = (
        _from_lake(archive, asked, horizon) if asked.start <= horizon else (None, [], set())
    )
    points = _widen(points, max(asked.step or 0.0, _required_width(points, len(stored), index, asked.limit)))
    refs = [*_merged(stored, index), *(_PointRef(point.at, point=point) for point in points)]
    kept = query_rows.thin(_thin_to_step(sorted(refs, key=lambda ref: ref.at), asked.step), asked.limit)
    told = _resolve(reading, archive, asked.query_id, kept, index)
    resolution = max((point.resolution for point in points if point.resolution), default=None)
    return ProgressSeries(told, resolution, _notes(points, rolled))


def _from_lake(
    archive: Archive, asked: ProgressRequest, horizon: float
) -> tuple[pa.Table | None, list[ProgressPoint], set[date]]:
    """The index of reports that are told whole, points of the others, and the days that rollups tell."""
    start, end = asked.start - 1e-6, horizon
    days = archive.days("progress", start - 86400.0, end)
    rolled = {table: archive.days(table, start, end) for table in BUCKET_SECONDS}
    choice = plan_days(asked.end - asked.start, days, rolled)
    points = [
        point
        for table, some in choice.rolled.items()
        for point in _rollup_points(archive, asked.query_id, table, some)
        if start < point.at <= end
    ]
    told = {day for some in choice.rolled.values() for day in some}
    raw = [day for day in choice.raw if day not in told]
    index = between(archive.index_days(asked.query_id, raw), "reported_at", start, end)
    if index.num_rows <= MAX_FULL_REPORTS:
        return index, points, told
    return None, [*points, *_raw_points(archive, asked.query_id, raw, start, end)], told


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
    """Seconds that a bucket must have for all to be within the limit; 0 where they are."""
    if len(points) + stored + (index.num_rows if index is not None else 0) <= limit:
        return 0.0
    times = [point.at for point in points if point.resolution]
    return (max(times) - min(times)) / max(1, limit) if times else 0.0


def _widen(points: list[ProgressPoint], step: float) -> list[ProgressPoint]:
    """Points of buckets much shorter than `step`, as points of longer ones.

    One of them instead of all would be a moment of its day: taken from day to day they show a rhythm that is none.
    """
    width = HOUR * math.ceil(step / HOUR) if step > HOUR else 60.0 * math.ceil(step / 60)
    found: list[ProgressPoint] = []
    longer: dict[float, list[ProgressPoint]] = {}
    for point in sorted(points, key=lambda one: one.at):
        if point.resolution and point.resolution < width:
            longer.setdefault(point.trigger_at // width, []).append(point)
        else:
            found.append(point)
    return [*found, *(_merge_points(some, width) for some in longer.values())]


def _merge_points(points: list[ProgressPoint], width: float) -> ProgressPoint:
    """Of a longer bucket: the median of medians, what state was last, rows in all."""
    busy = [point for point in points if point.duration > 0] or points

    def last(name: str) -> Any:
        return next((value for one in reversed(points) if (value := getattr(one, name)) is not None), None)

    def middle(name: str) -> float | None:
        values = [value for one in busy if (value := getattr(one, name)) is not None]
        return statistics.median(values) if values else None

    written = [one.output_rows for one in points if one.output_rows is not None]
    return ProgressPoint(
        at=(points[0].at + points[-1].at) / 2,
        trigger_at=points[0].trigger_at,
        run_id="",
        batch_id=-1,
        duration=middle("duration") or 0.0,
        input_rows=sum(one.input_rows for one in points),
        output_rows=sum(written) if written else None,
        input_rows_per_second=middle("input_rows_per_second"),
        processed_rows_per_second=middle("processed_rows_per_second"),
        lag_rows=middle("lag_rows"),
        state_rows=last("state_rows"),
        state_bytes=last("state_bytes"),
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
            seconds(row.pop(name)) for name in ("reported_at", "trigger_at", "watermark")
        )
        duration = (row.pop("duration_ms") or 0) / 1000
        row["input_rows"] = row["input_rows"] or 0
        yield ProgressPoint(
            at=at or 0.0, trigger_at=trigger_at or 0.0, duration=duration, watermark=watermark, **row
        )


def _merged(stored: Sequence[_PointRef], index: pa.Table | None) -> list[_PointRef]:
    """Reports of both, each once: late ones may be in both."""
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
    # Of buckets and of reports: where they meet, one of each.
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


def _notes(points: Sequence[ProgressPoint], rolled: set[date]) -> tuple[str, ...]:
    coarse = [point for point in points if point.resolution]
    if not coarse:
        return ()
    last = max(point.at + (point.at - point.trigger_at) for point in coarse)  # `at` is the middle
    longest = max(point.resolution or 0.0 for point in coarse)
    return (f"up to {rfc3339(last)} the points are medians of {_unit_text(longest)}, on {len(rolled)} days",)


def _unit_text(seconds: float) -> str:
    """`hours`, `6 hours`."""
    unit, name = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    many = seconds / unit
    return name if many == 1 else f"{many:g} {name}"
