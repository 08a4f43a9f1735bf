"""Convert rows of the lake to progress reports as the server keeps them in memory. Pure.

The inverse of `controlplane.lake.rows`; called by `controlplane.history.archive`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from controlplane.events.progress import NOTHING, Numbers, numbers, offsets
from controlplane.lake.fields import MAX_COMPUTED_MICROS
from controlplane.model import OperatorSample, ProgressSample, SourceSample

Row = Mapping[str, Any]
#: Columns of a report by table; of `progress` those that history needs.
REPORT_KEY = ("run_id", "batch_id", "trigger_at")
PROGRESS_COLUMNS = (
    *REPORT_KEY,
    "reported_at",
    "duration_ms",
    "durations_ms",
    "input_rows",
    "output_rows",
    "input_rows_per_second",
    "processed_rows_per_second",
    "watermark",
    "event_time_max",
    "event_time_min",
    "event_time_avg",
    "sink",
)
SOURCE_COLUMNS = (
    *REPORT_KEY,
    "source",
    "description",
    "start_offset",
    "end_offset",
    "latest_offset",
    "input_rows",
    "input_rows_per_second",
    "processed_rows_per_second",
    "metrics",
)
OPERATOR_COLUMNS = (
    *REPORT_KEY,
    "operator",
    "operator_name",
    "rows",
    "rows_updated",
    "rows_removed",
    "rows_dropped",
    "memory_bytes",
    "commit_ms",
    "shuffle_partitions",
    "custom_metrics",
    "extra",
)
#: The limits of `controlplane.events.progress`.
MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS = 1000, 200


def to_seconds(micros: int | None) -> float | None:
    """A time of the lake as Unix seconds, within the range of RFC 3339."""
    return None if micros is None else min(micros, MAX_COMPUTED_MICROS) / 1e6


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts, times as microseconds since 1970."""
    columns = {
        name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def progress_samples(progress: pa.Table, sources: pa.Table, operators: pa.Table) -> list[ProgressSample]:
    """One report per row of `progress`, in order, with its rows of the two other tables."""
    by_table = _by_key(sources, "source"), _by_key(operators, "operator")
    return [_sample(row, *(part.get(_key(row), ()) for part in by_table)) for row in to_rows(progress)]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in REPORT_KEY)


def _by_key(table: pa.Table, index: str) -> Mapping[tuple[Any, ...], Sequence[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in sorted(to_rows(table), key=lambda row: row[index] or 0):
        found[_key(row)].append(row)
    return found


def _sample(row: Row, sources: Sequence[Row], operators: Sequence[Row]) -> ProgressSample:
    times = {name: to_seconds(row[f"event_time_{name}"]) for name in ("avg", "max", "min")}
    known = {name: at for name, at in times.items() if at is not None}
    return ProgressSample(
        at=row["reported_at"] / 1e6,
        trigger_at=row["trigger_at"] / 1e6,
        run_id=sys.intern(row["run_id"]),
        batch_id=row["batch_id"],
        duration=(row["duration_ms"] or 0) / 1000,
        phases_ms={sys.intern(name): took for name, took in row["durations_ms"] or ()},
        input_rows=row["input_rows"] or 0,
        input_rows_per_second=row["input_rows_per_second"],
        processed_rows_per_second=row["processed_rows_per_second"],
        sources=tuple(map(_source, sources)),
        operators=tuple(map(_operator, operators)),
        sink=sys.intern((row["sink"] or "")[:MAX_DESCRIPTION_CHARS]),
        output_rows=row["output_rows"],
        watermark=to_seconds(row["watermark"]),
        event_time=Numbers(known) if known else NOTHING,
    )


def _source(row: Row) -> SourceSample:
    return SourceSample(
        description=sys.intern((row["description"] or "")[:MAX_DESCRIPTION_CHARS]),
        start=offsets(row["start_offset"]),
        end=offsets(row["end_offset"]),
        latest=offsets(row["latest_offset"]),
        input_rows=row["input_rows"] or 0,
        input_rows_per_second=row["input_rows_per_second"],
        processed_rows_per_second=row["processed_rows_per_second"],
        metrics=dict(row["metrics"] or ()),
    )


def _operator(row: Row) -> OperatorSample:
    custom = dict(row["custom_metrics"] or ())
    if row["extra"]:  # fractional values do not fit the column and are in `extra`
        extra_metrics = json.loads(row["extra"]).get("customMetrics")
        custom |= extra_metrics if isinstance(extra_metrics, dict) else {}
    return OperatorSample(
        name=sys.intern((row["operator_name"] or "")[:MAX_NAME_CHARS]),
        rows_total=row["rows"] or 0,
        rows_updated=row["rows_updated"] or 0,
        rows_removed=row["rows_removed"] or 0,
        rows_dropped_by_watermark=row["rows_dropped"] or 0,
        memory_bytes=row["memory_bytes"] or 0,
        commit_ms=row["commit_ms"] or 0,
        shuffle_partitions=row["shuffle_partitions"],
        metrics=numbers(custom),
    )
