"""Decode the common case, a report of Spark 3 or 4 with every field of its type, directly to columns of the
lake.

The fast path before `controlplane.pipeline.eventlogs.event_parser` and `controlplane.lake.rows`, called by
`split_reader`. Any unusual report is left to them; the rows are the same on both paths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Annotated, Any, Literal, cast

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from controlplane.events.progress import MAX_WHOLE
from controlplane.lake import fields as f
from controlplane.lake.arrays import column_array, table_from_columns
from controlplane.lake.rows import REPORT_TABLES, Producer
from controlplane.lake.schema import PROGRESS, SOURCES, STATE_OPERATORS, ColumnType, arrow_schema
from controlplane.pipeline.eventlogs import metric_columns as metrics
from controlplane.pipeline.eventlogs.event_parser import row_to_object
from controlplane.pipeline.eventlogs.metric_columns import Number, Numbers

#: A phase that triggers without data do not have.
DATA_PHASE = "addBatch"
#: Spark's watermark when there is none yet, and its entry in `extra`.
NO_WATERMARK = re.compile(rb'"watermark":\s*"1970-01-01T00:00:00\.000Z"')
NO_WATERMARK_EXTRA = '{"eventTime":{"watermark":"1970-01-01T00:00:00.000Z"}}'
#: Columns that are sums over the sources, except `output_rows`, which follows the first.
INPUT_COLUMNS = ("input_rows", "input_rows_per_second", "processed_rows_per_second", "lag_rows")
OUTPUT_ROWS_INDEX = PROGRESS.names.index("output_rows")
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=f.ID_CHARS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_WHOLE)] | None
Rate = float | Literal["NaN", "Infinity", "-Infinity"] | None
Text = str | None
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


NULL = msgspec.Raw(b"null")


class _StrictStruct(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Fields under Spark's names; absent ones are None. A report with an unknown field is rejected."""


class _Source(_StrictStruct):
    description: Text = None
    startOffset: Text = None
    endOffset: Text = None
    latestOffset: Text = None
    numInputRows: Count = None
    inputRowsPerSecond: Rate = None
    processedRowsPerSecond: Rate = None
    metrics: dict[str, str] | None = None


class _Operator(_StrictStruct):
    operatorName: Text = None
    numRowsTotal: Count = None
    numRowsUpdated: Count = None
    numRowsRemoved: Count = None
    numRowsDroppedByWatermark: Count = None
    memoryUsedBytes: Count = None
    commitTimeMs: Count = None
    allUpdatesTimeMs: Count = None
    allRemovalsTimeMs: Count = None
    numShufflePartitions: Count = None
    numStateStoreInstances: Count = None
    customMetrics: msgspec.Raw = NULL
    snapshotCustomMetricNames: msgspec.Raw = NULL


class _EventTime(_StrictStruct):
    watermark: Moment | None = None
    max: Moment | None = None
    min: Moment | None = None
    avg: Moment | None = None


class _Sink(_StrictStruct):
    description: Text = None
    numOutputRows: Annotated[int, msgspec.Meta(ge=-1, le=MAX_WHOLE)] | None = None
    metrics: dict[str, str] | None = None


class ProgressReport(_StrictStruct):
    """A progress report."""

    id: Id
    runId: Id
    timestamp: Moment
    batchId: Number
    durationMs: dict[str, Number]
    sources: list[_Source]
    name: Text = None
    batchDuration: Count = None
    eventTime: _EventTime | None = None
    stateOperators: list[_Operator] | None = None
    sink: _Sink | None = None
    observedMetrics: dict[str, msgspec.Raw] | None = None


class _Event(_StrictStruct):
    Event: Literal[
        "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
        "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgress",
    ]
    progress: ProgressReport


NO_EVENT_TIME, NO_SINK = _EventTime(), _Sink()
_decode = msgspec.json.Decoder(_Event).decode


class ReportDecoder:
    """Decodes and buffers the reports of a log that fit the fast path; `take` returns their columns and
    starts over.
    """

    def __init__(self, producer: Producer) -> None:
        self._who = producer
        self._by_query: dict[str, list[ProgressReport]] = {}
        self._rows = 0
        self._numbers = metrics.MetricReader()
        #: `snapshotCustomMetricNames` of the previous operator, and its JSON for `extra`.
        self._names = b""
        self._extra: str | None = None

    def __len__(self) -> int:
        """Rows of all tables that were not taken yet."""
        return self._rows

    def add(self, line: bytes) -> ProgressReport | None:
        """Decode the report of a line and buffer it; None when the line needs the general path."""
        try:
            report = _decode(line).progress
            if _is_unusual(report, line):
                return None
            if report.observedMetrics:
                report.observedMetrics = _observed(report.observedMetrics)  # type: ignore[assignment]
            if operators := report.stateOperators:
                for operator in operators:
                    self._decode_operator(operator, report.id)
        except (ValueError, RecursionError):  # msgspec's errors of types and of JSON are ValueErrors
            return None
        self._rows += 1 + len(report.sources) + (len(operators) if operators else 0)
        kept = self._by_query.get(report.id)
        if kept is None:
            self._by_query[report.id] = [report]
        else:
            kept.append(report)
        return report

    def _decode_operator(self, operator: _Operator, query_id: str) -> None:
        """Decode the fields that are still raw JSON, in place."""
        source = query_id, operator.operatorName
        operator.customMetrics = self._numbers.read(source, operator.customMetrics)  # type: ignore[assignment]
        names = bytes(operator.snapshotCustomMetricNames)
        if names != self._names:  # long, and mostly equal to those of the previous report
            self._extra, self._names = _extra(names), names
        operator.snapshotCustomMetricNames = self._extra  # type: ignore[assignment]

    def take(self) -> dict[str, pa.Table]:
        """Return the report tables by the lake's schema, sorted by query, and clear the buffer."""
        kept, self._by_query, self._rows = self._by_query, {}, 0
        if not kept:
            return {name: arrow_schema(name).empty_table() for name in REPORT_TABLES}
        return _tables(list(chain.from_iterable(kept[query] for query in sorted(kept))), self._who)


def ended_at(report: ProgressReport) -> float:
    """End of the trigger, Unix seconds, as in `reported_at`."""
    return f.end_micros(round(report.timestamp.timestamp() * 1e6), _duration_ms(report)) / 1e6


# -- unusual reports ---------------------------------------------------------------------------------


def _is_unusual(report: ProgressReport, line: bytes) -> bool:
    """Whether a value has the expected type but needs special treatment."""
    sink = report.sink
    if report.timestamp.tzinfo is not UTC or DATA_PHASE not in report.durationMs:
        return True
    if sink is not None and sink.metrics:
        return True
    sources = report.sources
    for source in sources:  # a rate of 0 for rows that were read is treated as absent
        if source.numInputRows and (source.inputRowsPerSecond == 0.0 or source.processedRowsPerSecond == 0.0):
            return True
    if len(sources) > 1 and not _has_valid_sums(sources):
        return True
    event_time = report.eventTime
    return event_time is not None and event_time != NO_EVENT_TIME and _is_unusual_time(event_time, line)


def _is_unusual_time(event_time: _EventTime, line: bytes) -> bool:
    moments = (event_time.watermark, event_time.max, event_time.min, event_time.avg)
    if any(moment is not None and moment.tzinfo is not UTC for moment in moments):
        return True
    if event_time.watermark != f.EPOCH:
        return False
    return NO_WATERMARK.search(line) is None or line.count(b'"watermark"') > 1


def _has_valid_sums(sources: list[_Source]) -> bool:
    """Whether the sums over the sources fit their columns."""
    read, *rates = _source_sums(sources)
    if read is not None and read > MAX_WHOLE:
        return False
    return all(rate is None or (math.isfinite(rate) and (rate != 0.0 or not read)) for rate in rates)


def _source_sums(sources: list[_Source]) -> tuple[int | None, float | None, float | None]:
    """Rows read and both rates, summed over the sources: an event log has no totals."""
    read = [source.numInputRows for source in sources if source.numInputRows is not None]
    ins = [source.inputRowsPerSecond for source in sources if type(source.inputRowsPerSecond) is float]
    outs = [
        source.processedRowsPerSecond for source in sources if type(source.processedRowsPerSecond) is float
    ]
    return sum(read) if read else None, sum(ins) if ins else None, sum(outs) if outs else None


# -- columns ---------------------------------------------------------------------------------------


def _tables(reports: list[ProgressReport], producer: Producer) -> dict[str, pa.Table]:
    size = len(reports)
    trigger_at = column_array(ColumnType.TIMESTAMP, [report.timestamp for report in reports])
    identity_columns = [
        column_array(ColumnType.STRING, [producer.app] * size),
        column_array(ColumnType.STRING, [report.id for report in reports]),
        column_array(ColumnType.STRING, [report.runId for report in reports]),
        column_array(ColumnType.BIGINT, [report.batchId for report in reports]),
        trigger_at,
    ]
    took = [_duration_ms(report) for report in reports]
    sources = _sources(reports, identity_columns, producer)
    operators: list[Sequence[_Operator]] = [report.stateOperators or () for report in reports]
    held = [len(some) for some in operators]
    states = _operators(operators, held, identity_columns, producer)
    sinks = [report.sink or NO_SINK for report in reports]
    times = [report.eventTime or NO_EVENT_TIME for report in reports]
    progress = [
        *identity_columns,
        [report.name or None for report in reports],
        _ended_at(trigger_at, took),
        took,
        *_input_columns(reports, sources),
        [None if time.watermark == f.EPOCH else time.watermark for time in times],
        [time.max for time in times],
        [time.min for time in times],
        [time.avg for time in times],
        *(_totals(states[name], held) for name in ("rows", "memory_bytes", "rows_dropped")),
        [report.durationMs for report in reports],
        [sink.description or None for sink in sinks],
        [report.observedMetrics or None for report in reports],
        [producer.spark_version] * size,
        [None] * size,
        [None] * size,
        [producer.origin] * size,
        [NO_WATERMARK_EXTRA if time.watermark == f.EPOCH else None for time in times],
    ]
    # `output_rows` is between the rows read and their rates.
    progress.insert(
        OUTPUT_ROWS_INDEX, [None if sink.numOutputRows == -1 else sink.numOutputRows for sink in sinks]
    )
    return {
        PROGRESS.name: table_from_columns(PROGRESS.name, progress),
        SOURCES.name: sources,
        STATE_OPERATORS.name: states,
    }


def _duration_ms(report: ProgressReport) -> int | None:
    """Duration of the trigger in milliseconds."""
    took = report.batchDuration
    if took is None and (executed := report.durationMs.get("triggerExecution")) is not None:
        took = max(0, executed)
    return took


def _ended_at(trigger_at: pa.Array, took: list[int | None]) -> pa.Array:
    """`fields.end_micros` of all reports."""
    most = 2 * f.MAX_COMPUTED_MICROS // 1000  # larger durations would overflow a column in any case
    spent = np.fromiter((min(item, most) if item else 0 for item in took), np.int64, len(took))
    begins = trigger_at.view(pa.int64()).to_numpy()
    ends = np.where(spent > 0, np.minimum(begins + spent * 1000, f.MAX_COMPUTED_MICROS), begins)
    return pa.array(ends).view(trigger_at.type)


def _input_columns(reports: list[ProgressReport], sources: pa.Table) -> list[Sequence[Any] | pa.ChunkedArray]:
    """The columns `input_rows`, both rates and `lag_rows`."""
    counts = [len(report.sources) for report in reports]
    if counts.count(1) == len(counts):
        return [sources[name] for name in INPUT_COLUMNS]
    sums = zip(*(_source_sums(report.sources) for report in reports), strict=True)
    return [*sums, _totals(sources["lag_rows"], counts)]


def _sources(reports: list[ProgressReport], identity_columns: list[pa.Array], producer: Producer) -> pa.Table:
    all_sources = [source for report in reports for source in report.sources]
    if not all_sources:
        return arrow_schema(SOURCES.name).empty_table()
    starts = [f.parse_offset_text(source.startOffset) for source in all_sources]
    ends = [f.parse_offset_text(source.endOffset) for source in all_sources]
    heads = [f.parse_offset_text(source.latestOffset) for source in all_sources]
    columns = [
        *_repeat_per_report(identity_columns, [len(source.sources) for source in reports]),
        [source.description or None for source in all_sources],
        [source.numInputRows for source in all_sources],
        [_rate(source.inputRowsPerSecond) for source in all_sources],
        [_rate(source.processedRowsPerSecond) for source in all_sources],
        *([offset[0] for offset in offsets] for offsets in (starts, ends, heads)),
        *([offset[1] for offset in offsets] for offsets in (ends, heads)),
        list(map(_lag_rows, all_sources, starts, ends, heads)),
        [source.metrics or None for source in all_sources],
        [producer.origin] * len(all_sources),
        [None] * len(all_sources),
    ]
    return table_from_columns(SOURCES.name, columns)


def _operators(
    operators: list[Sequence[_Operator]],
    counts: list[int],
    identity_columns: list[pa.Array],
    producer: Producer,
) -> pa.Table:
    all_operators = list(chain.from_iterable(operators))
    if not all_operators:
        return arrow_schema(STATE_OPERATORS.name).empty_table()
    columns = [
        *_repeat_per_report(identity_columns, counts),
        [operator.operatorName or None for operator in all_operators],
        [operator.numRowsTotal for operator in all_operators],
        [operator.numRowsUpdated for operator in all_operators],
        [operator.numRowsRemoved for operator in all_operators],
        [operator.numRowsDroppedByWatermark for operator in all_operators],
        [operator.memoryUsedBytes for operator in all_operators],
        [operator.commitTimeMs for operator in all_operators],
        [operator.allUpdatesTimeMs for operator in all_operators],
        [operator.allRemovalsTimeMs for operator in all_operators],
        [operator.numShufflePartitions for operator in all_operators],
        [operator.numStateStoreInstances for operator in all_operators],
        metrics.metrics_array([cast(Numbers, operator.customMetrics) for operator in all_operators]),
        [producer.origin] * len(all_operators),
        [operator.snapshotCustomMetricNames for operator in all_operators],
    ]
    return table_from_columns(STATE_OPERATORS.name, columns)


def _repeat_per_report(identity_columns: list[pa.Array], counts: list[int]) -> list[pa.Array]:
    """Repeat the columns of each report `counts` times, and add the index within the report."""
    many = np.array(counts)
    if (many == 1).all():
        return [*identity_columns, pa.array(np.zeros(len(many), np.int32))]
    places = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    owners = pa.array(np.repeat(np.arange(len(many)), many))
    return [
        *(identity_column.take(owners) for identity_column in identity_columns),
        pa.array(places.astype(np.int32)),
    ]


def _totals(column: pa.ChunkedArray, counts: list[int]) -> Sequence[Any] | pa.ChunkedArray:
    """`fields.column_sum` over each report's rows."""
    many = np.array(counts)
    if many.max() <= 1:
        return column.take(pa.array(np.cumsum(many) - 1, mask=many == 0))
    values = iter(column.to_pylist())
    return [f.column_sum([(value,) for value in islice(values, count)], 0) for count in counts]


# -- values ----------------------------------------------------------------------------------------


def _lag_rows(source: _Source, start: f.Offset, end: f.Offset, head: f.Offset) -> int | None:
    return f.lag_rows(source.description, start[2], end[2], head[2], source.numInputRows)


def _rate(value: float | str | None) -> float | None:
    """None for NaN and the infinities, which Jackson writes as text."""
    return value if type(value) is float else None


def _observed(observed: dict[str, msgspec.Raw]) -> str | None:
    return f.json_or_none(row_to_object({name: orjson.loads(bytes(raw)) for name, raw in observed.items()}))


def _extra(names: bytes) -> str | None:
    parsed_names = orjson.loads(names)
    return f.json_or_none(f.without_empty({"snapshotCustomMetricNames": parsed_names}))
