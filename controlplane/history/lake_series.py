"""Series computed from the lake's rows alone: from rollups where there are any, else from reports. Pure.

Input: Arrow tables; output: values on a grid of `step` seconds. Called by
`controlplane.history.federated_series`. A report's value holds until the next one, until the run ends, or for
an hour; a rollup's value holds for its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alerts.promql.series import Floats
from listeners.protocol.catalogue import PREFIX

#: How long the value of a report without a successor holds.
HOLD_SECONDS = 3600.0
BUCKET_SECONDS = {"rollup_1m": 60.0, "rollup_1h": 3600.0}
#: Columns of `progress` that hold times.
TIMES = frozenset(("watermark", "event_time_max", "reported_at"))


@dataclass(frozen=True)
class MetricColumns:
    """The columns of a metric in `progress` and in rollups; None where the table does not have it.

    `factor`: from the column's unit to the metric's; `is_counter`: each row holds an increment; `label`:
    distinguishes sources or operators, unknown for sums over several.
    """

    raw: str | None
    rolled: str | None = None
    factor: float = 1.0
    is_counter: bool = False
    label: str = ""


METRIC_COLUMNS: Mapping[str, MetricColumns] = {
    PREFIX + name: figure
    for name, figure in {
        "batch_id": MetricColumns("batch_id"),
        "batch_duration_seconds": MetricColumns("duration_ms", "duration_seconds_p50", 0.001),
        "input_rows_per_second": MetricColumns("input_rows_per_second", "input_rows_per_second_p50"),
        "processed_rows_per_second": MetricColumns(
            "processed_rows_per_second", "processed_rows_per_second_p50"
        ),
        "source_lag_rows": MetricColumns("lag_rows", "lag_rows_p50", label="source"),
        "source_lag_seconds": MetricColumns(None, "lag_seconds_p50", label="source"),
        "watermark_lag_seconds": MetricColumns("watermark", "watermark_lag_seconds_max"),
        "watermark_timestamp_seconds": MetricColumns("watermark"),
        "event_time_max_timestamp_seconds": MetricColumns("event_time_max"),
        "last_progress_timestamp_seconds": MetricColumns("reported_at"),
        "state_rows": MetricColumns("state_rows", "state_rows_last", label="operator"),
        "state_memory_bytes": MetricColumns("state_bytes", "state_bytes_last", label="operator"),
        "batches_total": MetricColumns("batch_id", "batches", is_counter=True),
        "input_rows_total": MetricColumns("input_rows", "input_rows", is_counter=True),
        "output_rows_total": MetricColumns("output_rows", "output_rows", is_counter=True),
    }.items()
}
WATERMARK_LAG, BATCHES = PREFIX + "watermark_lag_seconds", PREFIX + "batches_total"


@dataclass(frozen=True, eq=False)
class Spans:
    """Values of one query, each valid from `starts` until before `ends` (Unix seconds), in time order.

    `known`: when each value became known: a report's on arrival, a rollup's at the end of its bucket.
    """

    starts: Floats
    ends: Floats
    values: Floats
    known: Floats


def raw_columns(figure: MetricColumns) -> tuple[str, ...]:
    """The columns of `progress` that the metric needs."""
    return tuple(dict.fromkeys(("query_id", "reported_at", "duration_ms", str(figure.raw))))


def rollup_columns(figure: MetricColumns) -> tuple[str, ...]:
    """The columns of a rollup that the metric needs."""
    return ("query_id", "bucket_at", str(figure.rolled))


def spans_from_reports(name: str, table: pa.Table, ends: Mapping[str, Floats]) -> dict[str, Spans]:
    """Spans by query from rows of `progress`. `ends`: times at which runs of a query ended, ascending."""
    figure, found = METRIC_COLUMNS[name], {}
    values = _float_column(table, str(figure.raw)) * figure.factor
    at = _float_column(table, "reported_at")
    if name == BATCHES:
        values = np.ones(len(at))
    if name == WATERMARK_LAG:
        values = at - np.nan_to_num(_float_column(table, "duration_ms")) / 1000 - values
    for query_id, rows in _by_query(table):
        order = rows[np.argsort(at[rows], kind="stable")]
        starts = at[order]
        until = starts + HOLD_SECONDS
        run_ends = ends.get(query_id)
        if run_ends is not None and len(run_ends):
            position = np.searchsorted(run_ends, starts, "left")
            known = position < len(run_ends)
            until[known] = np.minimum(
                until[known], np.maximum(run_ends[position[known]], starts[known] + 0.001)
            )
        found[query_id] = Spans(starts, until, values[order], starts)
    return found


def spans_from_rollups(name: str, table: pa.Table, width: float) -> dict[str, Spans]:
    """Spans by query from rows of a rollup with buckets of `width` seconds."""
    bucket_starts, values = (
        _float_column(table, "bucket_at"),
        _float_column(table, str(METRIC_COLUMNS[name].rolled)),
    )
    found = {}
    for query_id, rows in _by_query(table):
        order = rows[np.argsort(bucket_starts[rows], kind="stable")]
        ends = bucket_starts[order] + width
        found[query_id] = Spans(bucket_starts[order], ends, values[order], ends)
    return found


def merge_spans(parts: Iterable[Mapping[str, Spans]]) -> dict[str, Spans]:
    """Concatenate the spans of several tables, each query's in time order."""
    found: dict[str, list[Spans]] = {}
    for part in parts:
        for query_id, spans in part.items():
            found.setdefault(query_id, []).append(spans)
    return {query_id: _concatenate(several) for query_id, several in found.items()}


def _concatenate(several: list[Spans]) -> Spans:
    starts, ends, values, known = (
        np.concatenate([getattr(item, name) for item in several])
        for name in ("starts", "ends", "values", "known")
    )
    order = np.argsort(starts, kind="stable")
    return Spans(starts[order], ends[order], values[order], known[order])


def gauge_values(spans: Spans, times: Floats) -> Floats:
    """The value at each time; NaN where there is none."""
    position = np.searchsorted(spans.starts, times, "right") - 1
    held = (position >= 0) & (times < spans.ends[position])
    return np.where(held, spans.values[position], np.nan)


def counter_values(spans: Spans, times: Floats, until: float, total: float | None) -> Floats:
    """The counter at each time, computed backwards from `total` at `until`; starting at 0 where no total is
    known.
    """
    kept = spans.known <= until
    known, added = spans.known[kept], np.nan_to_num(spans.values[kept])
    sums = np.concatenate([[0.0], np.cumsum(added)])
    base = 0.0 if total is None else total - sums[-1]
    found = base + sums[np.searchsorted(known, times, "right")]
    return np.where(times >= spans.starts[0], found, np.nan)


def _by_query(table: pa.Table) -> Iterator[tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """Query id → its rows."""
    coded = table["query_id"].combine_chunks().dictionary_encode()
    codes = np.asarray(coded.indices.fill_null(-1))
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
    for position, query_id in enumerate(coded.dictionary.to_pylist()):
        yield query_id, order[bounds[position] : bounds[position + 1]]


def _float_column(table: pa.Table, column: str) -> Floats:
    """A column as floats, times in Unix seconds; NaN for null."""
    values = table[column]
    if pa.types.is_timestamp(values.type):
        return _floats(values.cast(pa.int64())) / 1e6
    return _floats(values)


def _floats(values: pa.ChunkedArray) -> Floats:
    return np.asarray(values.cast(pa.float64()).to_numpy(), np.float64)
