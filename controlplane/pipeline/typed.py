"""The common event, a report of Spark 3 or 4 with every field of its type -> rows of the lake, in one pass.

The fast way through `controlplane.pipeline.normalising` and `controlplane.lake.rows`, called by `reading` before them:
what is odd in any way is left to them, so that the rows are the same whichever way a line took.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
import orjson

from controlplane.lake import fields as f
from controlplane.lake.rows import (
    OPERATOR_BYTES,
    OPERATOR_DROPPED,
    OPERATOR_ROWS,
    SOURCE_LAG,
    SOURCE_RATE,
    SOURCE_ROWS,
    ReportRows,
    Row,
    Who,
)
from controlplane.pipeline.normalising import plain
from controlplane.progress import MAX_WHOLE

#: A phase that a trigger without data does not have.
WORK = "addBatch"
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=f.ID_CHARS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_WHOLE)] | None
Number = Annotated[int, msgspec.Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
Rate = float | Literal["NaN", "Infinity", "-Infinity"] | None
Text = str | None


UNTOLD = msgspec.Raw(b"null")


class Odd(Exception):
    """The event is for the general way."""


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What Spark says, by its names; what it does not say is None. A field more, and it is no report for us."""


class _Source(_Exact):
    description: Text = None
    startOffset: Text = None
    endOffset: Text = None
    latestOffset: Text = None
    numInputRows: Count = None
    inputRowsPerSecond: Rate = None
    processedRowsPerSecond: Rate = None
    metrics: dict[str, str] | None = None


class _Operator(_Exact):
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
    customMetrics: dict[str, Number] | None = None
    snapshotCustomMetricNames: msgspec.Raw = UNTOLD


class _EventTime(_Exact):
    watermark: Text = None
    max: Text = None
    min: Text = None
    avg: Text = None


class _Sink(_Exact):
    description: Text = None
    numOutputRows: Annotated[int, msgspec.Meta(ge=-1, le=MAX_WHOLE)] | None = None
    metrics: dict[str, str] | None = None


class Report(_Exact):
    """What a batch reports."""

    id: Id
    runId: Id
    timestamp: str
    batchId: Number
    durationMs: dict[str, Number]
    sources: list[_Source]
    name: Text = None
    batchDuration: Count = None
    eventTime: _EventTime | None = None
    stateOperators: list[_Operator] | None = None
    sink: _Sink | None = None
    observedMetrics: msgspec.Raw = UNTOLD


class _Event(_Exact):
    Event: Literal[
        "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
        "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgress",
    ]
    progress: Report


_decode = msgspec.json.Decoder(_Event).decode


def quick(line: bytes, who: Who) -> ReportRows | None:
    """The rows of a line; None when it is for the general way."""
    try:
        return _rows(_decode(line).progress, who)
    except (Odd, ValueError, RecursionError):  # what msgspec says of a type or of JSON is a ValueError
        return None


def _rows(report: Report, who: Who) -> ReportRows:
    phases = report.durationMs
    if WORK not in phases:
        raise Odd
    trigger_at = f.micros(report.timestamp)
    if trigger_at is None:
        raise Odd
    took = report.batchDuration
    if took is None and (executed := phases.get("triggerExecution")) is not None:
        took = max(0, executed)
    whose = (who.app, report.id, report.runId, report.batchId, trigger_at)
    origin = who.origin
    sources = [_source(one, whose, place, origin) for place, one in enumerate(report.sources)]
    states: list[Row] = []
    if operators := report.stateOperators:
        states = [_operator(one, whose, place, origin) for place, one in enumerate(operators)]
    sink, output = report.sink, None
    if sink is not None:
        output = None if sink.numOutputRows == -1 else sink.numOutputRows
        if sink.metrics:
            raise Odd
    kept = (
        *whose,
        report.name or None,
        f.ended_at(trigger_at, took),
        took,
        *_read(report.sources, sources, output),
        *_event_time(report.eventTime),
        *_sums(states),
        phases,
        sink.description or None if sink is not None else None,
        _observed(bytes(report.observedMetrics)),
        who.spark_version,
        None,
        None,
        origin,
        None,
    )
    return kept, sources, states


def _read(told: list[_Source], rows: list[Row], output: int | None) -> Row:
    """The columns from `input_rows` to `lag_rows`: a log has no totals, they are sums over the sources."""
    if len(told) == 1:
        (row,) = rows
        return row[SOURCE_ROWS], output, row[SOURCE_RATE], row[SOURCE_RATE + 1], row[SOURCE_LAG]
    read = _sum([one.numInputRows for one in told])
    rates = []
    for column in (SOURCE_RATE, SOURCE_RATE + 1):
        known = [row[column] for row in rows if row[column] is not None]
        rates.append(_rate(sum(known), read) if known else None)
    return read, output, *rates, f.total(rows, SOURCE_LAG)


def _sums(states: list[Row]) -> Row:
    """The columns from `state_rows` to `dropped_rows`."""
    if not states:
        return None, None, None
    return (
        f.total(states, OPERATOR_ROWS),
        f.total(states, OPERATOR_BYTES),
        f.total(states, OPERATOR_DROPPED),
    )


def _source(one: _Source, whose: Row, place: int, origin: str) -> Row:
    rows = one.numInputRows
    end, end_total, ends = f.offset_of_text(one.endOffset)
    latest, latest_total, heads = f.offset_of_text(one.latestOffset)
    return (
        *whose,
        place,
        one.description or None,
        rows,
        _rate(one.inputRowsPerSecond, rows),
        _rate(one.processedRowsPerSecond, rows),
        f.offset_of_text(one.startOffset)[0],
        end,
        latest,
        end_total,
        latest_total,
        f.lag(ends, heads),
        one.metrics or None,
        origin,
        None,
    )


def _operator(one: _Operator, whose: Row, place: int, origin: str) -> Row:
    return (
        *whose,
        place,
        one.operatorName or None,
        one.numRowsTotal,
        one.numRowsUpdated,
        one.numRowsRemoved,
        one.numRowsDroppedByWatermark,
        one.memoryUsedBytes,
        one.commitTimeMs,
        one.allUpdatesTimeMs,
        one.allRemovalsTimeMs,
        one.numShufflePartitions,
        one.numStateStoreInstances,
        one.customMetrics or None,
        origin,
        _extra("snapshotCustomMetricNames", bytes(one.snapshotCustomMetricNames)),
    )


# -- values ----------------------------------------------------------------------------------------


def _moment(stamp: str) -> int:
    moment = f.micros(stamp)
    if moment is None:
        raise Odd
    return moment


def _rate(value: float | str | None, rows: int | None) -> float | None:
    if type(value) is not float:
        return None  # NaN and the infinities, which Jackson writes as text
    if (value == 0.0 and rows) or value == math.inf:
        raise Odd
    return value


def _sum(values: list[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    if not known:
        return None
    if (found := sum(known)) > MAX_WHOLE:
        raise Odd
    return found


def _event_time(told: _EventTime | None) -> Row:
    if told is None:
        return None, None, None, None
    watermark = None if told.watermark is None else _moment(told.watermark)
    if watermark == 0:  # of 1970: none yet
        raise Odd
    if told.max is None and told.min is None and told.avg is None:
        return watermark, None, None, None
    return watermark, *(None if one is None else _moment(one) for one in (told.max, told.min, told.avg))


def _observed(told: bytes) -> str | None:
    return None if told == b"{}" else f.as_json(plain(orjson.loads(told)))


@lru_cache(maxsize=256)
def _extra(name: str, told: bytes) -> str | None:
    """Of what is the same from report to report."""
    return f.as_json(f.full({name: orjson.loads(told)}))
