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
from controlplane.history.archive import Archive, between, of
from controlplane.history.federated_series import chosen
from controlplane.history.lake_series import WIDTHS
from controlplane.history.model import Point, ProgressRequest, ProgressSeries
from controlplane.history.report_rows import rows_of, seconds
from controlplane.model import ProgressSample
from controlplane.store import offload_marks
from controlplane.store import queries as query_rows
from listeners.protocol.wire import rfc3339

HOUR = 3600.0
UNITS = ((86400.0, "days"), (HOUR, "hours"), (60.0, "minutes"))
#: Reports of the lake that are told whole; of more, what `progress` alone tells.
MOST_WHOLE = 20_000
LIGHT = (
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
ROLLED = {
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
class _Ref:
    """A report that was not read yet: an event of the store, a row of the lake's index; or a point."""

    at: float
    key: tuple[int, int] = (0, 0)
    event: int | None = None
    row: int | None = None
    point: Point | None = field(default=None, compare=False)


def read(
    reading: Callable[[], AbstractContextManager[Connection]], archive: Archive, asked: ProgressRequest
) -> ProgressSeries:
    """From store and lake. LakeError where the lake cannot be read, TooCostly where it is too much."""
    with reading() as connection:
        since = offload_marks.complete_since(connection, asked.query_id)
        stored = [
            _Ref(row.at, (row.batch_id, round(row.trigger_at * 1000)), event=row.event_id)
            for row in query_rows.report_index(connection, asked.query_id, asked.start, asked.end)
        ]
    horizon = asked.end if since is None else min(asked.end, since)
    index, points, rolled = (
        _from_lake(archive, asked, horizon) if asked.start <= horizon else (None, [], set())
    )
    points = _combined(points, max(asked.step or 0.0, _needed(points, len(stored), index, asked.limit)))
    refs = [*_merged(stored, index), *(_Ref(point.at, point=point) for point in points)]
    kept = query_rows.thin(_stepped(sorted(refs, key=lambda ref: ref.at), asked.step), asked.limit)
    told = _materialised(reading, archive, asked.query_id, kept, index)
    resolution = max((point.resolution for point in points if point.resolution), default=None)
    return ProgressSeries(told, resolution, _notes(points, rolled))


def _from_lake(
    archive: Archive, asked: ProgressRequest, horizon: float
) -> tuple[pa.Table | None, list[Point], set[date]]:
    """The index of reports that are told whole, points of the others, and the days that rollups tell."""
    start, end = asked.start - 1e-6, horizon
    days = archive.days("progress", start - 86400.0, end)
    rolled = {table: archive.days(table, start, end) for table in WIDTHS}
    choice = chosen(asked.end - asked.start, days, rolled)
    points = [
        point
        for table, some in choice.rolled.items()
        for point in _buckets(archive, asked.query_id, table, some)
        if start < point.at <= end
    ]
    told = {day for some in choice.rolled.values() for day in some}
    raw = [day for day in choice.raw if day not in told]
    index = between(archive.index_of(asked.query_id, raw), "reported_at", start, end)
    if index.num_rows <= MOST_WHOLE:
        return index, points, told
    return None, [*points, *_light(archive, asked.query_id, raw, start, end)], told


def _buckets(archive: Archive, query_id: str, table: str, days: Sequence[date]) -> Iterator[Point]:
    width = WIDTHS[table]
    for row in rows_of(archive.table(table, tuple(ROLLED), days, of([query_id]))):
        values: dict[str, Any] = {name: row[column] for column, name in ROLLED.items()}
        begin = values.pop("bucket_at") / 1e6
        for name in ("state_rows", "state_bytes"):
            values[name] = None if values[name] is None else round(values[name])
        values |= {"duration": values["duration"] or 0.0, "input_rows": values["input_rows"] or 0}
        yield Point(begin + width / 2, begin, "", -1, **values, resolution=width)


def _needed(points: Sequence[Point], stored: int, index: pa.Table | None, limit: int) -> float:
    """Seconds that a bucket must have for all to be within the limit; 0 where they are."""
    if len(points) + stored + (index.num_rows if index is not None else 0) <= limit:
        return 0.0
    times = [point.at for point in points if point.resolution]
    return (max(times) - min(times)) / max(1, limit) if times else 0.0


def _combined(points: list[Point], step: float) -> list[Point]:
    """Points of buckets much shorter than `step`, as points of longer ones.

    One of them instead of all would be a moment of its day: taken from day to day they show a rhythm that is none.
    """
    width = HOUR * math.ceil(step / HOUR) if step > HOUR else 60.0 * math.ceil(step / 60)
    found: list[Point] = []
    longer: dict[float, list[Point]] = {}
    for point in sorted(points, key=lambda one: one.at):
        if point.resolution and point.resolution < width:
            longer.setdefault(point.trigger_at // width, []).append(point)
        else:
            found.append(point)
    return [*found, *(_one(some, width) for some in longer.values())]


def _one(points: list[Point], width: float) -> Point:
    """Of a longer bucket: the median of medians, what state was last, rows in all."""
    busy = [point for point in points if point.duration > 0] or points

    def last(name: str) -> Any:
        return next((value for one in reversed(points) if (value := getattr(one, name)) is not None), None)

    def middle(name: str) -> float | None:
        values = [value for one in busy if (value := getattr(one, name)) is not None]
        return statistics.median(values) if values else None

    written = [one.output_rows for one in points if one.output_rows is not None]
    return Point(
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


def _light(
    archive: Archive, query_id: str, days: Sequence[date], start: float, end: float
) -> Iterator[Point]:
    rows = between(archive.table("progress", LIGHT, days, of([query_id])), "reported_at", start, end)
    for row in rows_of(rows):
        at, trigger_at, watermark = (
            seconds(row.pop(name)) for name in ("reported_at", "trigger_at", "watermark")
        )
        duration = (row.pop("duration_ms") or 0) / 1000
        row["input_rows"] = row["input_rows"] or 0
        yield Point(at=at or 0.0, trigger_at=trigger_at or 0.0, duration=duration, watermark=watermark, **row)


def _merged(stored: Sequence[_Ref], index: pa.Table | None) -> list[_Ref]:
    """Reports of both, each once: late ones may be in both."""
    found = {ref.key: ref for ref in stored}
    if index is not None:
        for place, row in enumerate(rows_of(index)):
            key = row["batch_id"], round(row["trigger_at"] / 1000)
            if key not in found:
                found[key] = _Ref(row["reported_at"] / 1e6, key, row=place)
    return sorted(found.values(), key=lambda ref: (ref.at, ref.key[1], ref.key[0]))


def _stepped(refs: list[_Ref], step: float | None) -> list[_Ref]:
    if step is None:
        return refs
    # Of buckets and of reports: where they meet, one of each.
    return list({(ref.at // step, ref.point is None): ref for ref in refs}.values())


def _materialised(
    reading: Callable[[], AbstractContextManager[Connection]],
    archive: Archive,
    query_id: str,
    refs: Sequence[_Ref],
    index: pa.Table | None,
) -> list[Point | ProgressSample]:
    events = [ref.event for ref in refs if ref.event is not None]
    with reading() as connection:
        samples = progress.samples(query_rows.reports_of(connection, events))
    places = [ref.row for ref in refs if ref.row is not None]
    if index is not None and places:
        samples += archive.picked(query_id, index.take(places))
    points: list[Point | ProgressSample] = [*samples, *(ref.point for ref in refs if ref.point is not None)]
    return sorted(points, key=lambda point: (point.at, point.trigger_at, point.batch_id))


def _notes(points: Sequence[Point], rolled: set[date]) -> tuple[str, ...]:
    coarse = [point for point in points if point.resolution]
    if not coarse:
        return ()
    last = max(point.at + (point.at - point.trigger_at) for point in coarse)  # `at` is the middle
    longest = max(point.resolution or 0.0 for point in coarse)
    return (f"up to {rfc3339(last)} the points are medians of {_words(longest)}, on {len(rolled)} days",)


def _words(seconds: float) -> str:
    """`hours`, `6 hours`."""
    unit, name = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    many = seconds / unit
    return name if many == 1 else f"{many:g} {name}"
