"""Parse a line of an event log about a streaming query; reports get the shape of `progress.json`.

Pure. The only reader of event logs' JSON: Jackson's rendering of Spark's classes differs from Spark's own
`json` (offsets are text, totals are missing, rows carry their schema), and Spark 2.0 used another format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

Json = dict[str, Any]
#: Common prefix of the event class names since Spark 2.0.
EVENT_CLASS_PREFIX = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
KINDS = {
    "Started": "started",
    "StartedEvent": "started",
    "Progress": "progress",
    "ProgressEvent": "progress",
    "IdleEvent": "idle",
    "Terminated": "terminated",
    "TerminatedEvent": "terminated",
}
#: Keys of the status object in events of Spark 2.0.
SPARK_2_0_KEYS = ("queryStatus", "queryInfo")
NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))
_KNOWN = frozenset(
    ("Event", "id", "runId", "name", "timestamp", "exception", "errorClassOnException", "stackTrace")
)


class EventLogRecord(NamedTuple):
    """One event. `kind`: started, progress, idle or terminated; `report`: of progress; `rest`: other fields
    of the others.

    `at`: the event's time (RFC 3339 text or Unix seconds); None where the log has none.
    """

    kind: str
    query_id: str | None
    run_id: str | None
    name: str | None = None
    at: str | float | None = None
    exception: str | None = None
    error_class: str | None = None
    report: Mapping[str, Any] | None = None
    rest: Mapping[str, Any] | None = None


def parse_event(document: Any, app_id: str = "") -> EventLogRecord | None:
    """Parse a JSON document; None for other kinds of events. ValueError in one sentence when it is malformed.

    `app_id`: Spark 2.0 numbers queries per application, so ids are unique only together with it.
    """
    if not isinstance(document, dict):
        return None
    event = document.get("Event")
    if not isinstance(event, str) or not event.startswith(EVENT_CLASS_PREFIX):
        return None
    kind = KINDS.get(event[len(EVENT_CLASS_PREFIX) :])
    if kind is None:
        return None
    for name in SPARK_2_0_KEYS:
        if isinstance(document.get(name), dict):
            return _parse_2_0(kind, document, document[name], app_id)
    if kind == "progress":
        report = document.get("progress")
        if not isinstance(report, dict):
            raise ValueError("a progress event has no progress object")
        return EventLogRecord(
            kind, report.get("id"), report.get("runId"), _text(report.get("name")), report=_normalize(report)
        )
    query_id, run_id = _text(document.get("id")), _text(document.get("runId"))
    if query_id is None or run_id is None:
        raise ValueError(f"a {kind} event has no id or runId")
    return EventLogRecord(
        kind,
        query_id,
        run_id,
        _text(document.get("name")),
        document.get("timestamp"),
        _text(document.get("exception")),
        _text(document.get("errorClassOnException")),
        rest={
            key: value for key, value in document.items() if key not in _KNOWN and value not in (None, [], {})
        },
    )


# -- Spark 2.1 and later ---------------------------------------------------------------------------


def _normalize(report: Json) -> Json:
    """Convert a report in place to the form of its own `json`, except that rates keep all digits."""
    sources = report.get("sources")
    if isinstance(sources, list) and sources:
        _add_totals(report, [source for source in sources if isinstance(source, dict)])
    observed = report.get("observedMetrics")
    if observed:
        report["observedMetrics"] = row_to_object(observed)
    return report


def _add_totals(report: Json, sources: list[Json]) -> None:
    """Add the sums that `json` has; none where a source lacks a value."""
    if "numInputRows" not in report:
        rows = [source.get("numInputRows") for source in sources]
        if all(type(row) is int for row in rows):
            report["numInputRows"] = sum(rows)
    for key in ("inputRowsPerSecond", "processedRowsPerSecond"):
        if key not in report:
            rates = [source.get(key) for source in sources]
            if all(isinstance(rate, (int, float)) for rate in rates):
                report[key] = sum(rates)


def row_to_object(value: Any) -> Any:
    """Convert a row with its schema to an object of its fields, at any depth."""
    if isinstance(value, list):
        return [row_to_object(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema, values = value.get("schema"), value.get("values")
    if value.keys() == {"schema", "values"} and isinstance(schema, dict) and isinstance(values, list):
        fields = schema.get("fields")
        if isinstance(fields, list) and len(fields) == len(values):
            named = zip(fields, values, strict=True)
            return {
                str(item.get("name")): row_to_object(inner) for item, inner in named if isinstance(item, dict)
            }
    return {name: row_to_object(inner) for name, inner in value.items()}


# -- Spark 2.0 -------------------------------------------------------------------------------------

_STATE = re.compile(r"numRows\.state\.aggregation(\d{1,6})\.(total|updated)")
_PHASES_2_0 = {
    "latency.getOffset.total": "getOffset",
    "latency.getBatch.total": "getBatch",
    "latency.offsetLogWrite": "walCommit",
    "latency.optimizer": "queryPlanning",
    "latency.fullTrigger": "triggerExecution",
}


def _parse_2_0(kind: str, document: Json, status: Json, app_id: str) -> EventLogRecord:
    number = status.get("id")
    if isinstance(number, bool) or not isinstance(number, (int, str)):
        raise ValueError("an event of Spark 2.0 has no query id")
    query_id = f"{app_id}/{number}"[-64:]
    name = _text(status.get("name"))
    details = _details(status)
    at = _milliseconds(status.get("timestamp"))
    rest = {"status": status}
    if kind == "progress":
        batch_id = _whole(details.get("triggerId"))
        # Spark 2.0.0 and 2.0.1 number no batch: their reports only show that the query ran.
        if batch_id is None or details.get("isDataPresentInTrigger") == "false":
            return EventLogRecord("idle", query_id, query_id, name, at, rest=rest)
        report = _report_2_0(query_id, name, batch_id, status, details, at)
        return EventLogRecord(kind, query_id, query_id, name, at, report=report)
    text = _text(document.get("exception"))
    return EventLogRecord(kind, query_id, query_id, name, at, text, rest=rest)


def _report_2_0(
    query_id: str, name: str | None, batch_id: int, status: Json, details: Json, at: float | None
) -> Json:
    began = _milliseconds(_whole(details.get("timestamp.triggerStart")))
    sources = [_source_2_0(item) for item in status.get("sourceStatuses") or () if isinstance(item, dict)]
    sink = status.get("sinkStatus")
    return {
        "id": query_id,
        "runId": query_id,
        "name": name,
        "timestamp": at if began is None else began,
        "batchId": batch_id,
        "numInputRows": _whole(details.get("numRows.input.total")),
        "inputRowsPerSecond": status.get("inputRate"),
        "processedRowsPerSecond": status.get("processingRate"),
        "durationMs": {
            phase: took
            for key, phase in _PHASES_2_0.items()
            if (took := _whole(details.get(key))) is not None
        },
        "stateOperators": _operators_2_0(details),
        "sources": sources,
        "sink": {"description": sink.get("description"), "offset": sink.get("offsetDesc")}
        if isinstance(sink, dict)
        else {},
        "status": {"latency": status.get("latency"), "triggerDetails": details},
    }


def _source_2_0(source: Json) -> Json:
    details = _details(source)
    return {
        "description": source.get("description"),
        "endOffset": source.get("offsetDesc"),
        "numInputRows": _whole(details.get("numRows.input.source")),
        "inputRowsPerSecond": source.get("inputRate"),
        "processedRowsPerSecond": source.get("processingRate"),
        "metrics": details,
    }


def _operators_2_0(details: Json) -> list[Json]:
    found: dict[int, Json] = {}
    for key, value in details.items():
        match = _STATE.fullmatch(key)
        rows = _whole(value)
        if match and rows is not None:
            place = int(match[1])
            operator = found.setdefault(place, {"operatorName": f"aggregation{place}"})
            operator["numRowsTotal" if match[2] == "total" else "numRowsUpdated"] = rows
    return [found[place] for place in sorted(found)]


def _details(status: Json) -> Json:
    details = status.get("triggerDetails") or status.get("triggerStatus")
    return details if isinstance(details, dict) else {}


# -- scalars ---------------------------------------------------------------------------------------


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    """An integer, or text of one."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _milliseconds(value: Any) -> float | None:
    return value / 1000 if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parse_line(line: bytes) -> Any:
    """Parse a line as JSON. ValueError for a truncated line or anything else."""
    return orjson.loads(line)
