"""Lines of event logs become what `progress.json` states of the same events; Spark 2.0's shape becomes today's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.pipeline.eventlogs.event_parser import (
    EVENT_CLASS_PREFIX,
    EventLogRecord,
    parse_event,
    parse_line,
)
from tests import eventlogs

WHO = Producer("recorded", "4.3.0", "log")
#: `progress.json` rounds rates to one digit, a log does not.
ROUNDED = ("input_rows_per_second", "processed_rows_per_second")


def events(path: Any = eventlogs.RECORDED, app_id: str = "app-1") -> list[EventLogRecord]:
    found = []
    for line in eventlogs.lines(path):
        try:
            event = parse_event(parse_line(line), app_id)
        except ValueError:
            continue
        found += [event] if event else []
    return found


def columns(reports: list[Any]) -> dict[str, list[dict[str, Any]]]:
    rows = LakeRowBuilder()
    for report in reports:
        rows.progress(WHO, report)
    return {name: table.to_pylist() for name, table in rows.take().items()}


def test_a_log_gives_the_same_columns_as_the_listener_received() -> None:
    logged = columns([event.report for event in events() if event.kind == "progress"])
    received = columns([item["report"] for item in eventlogs.received() if item["kind"] == "progress"])
    assert [len(rows) for rows in logged.values()] == [12, 12, 11, 0]
    for name, rows in logged.items():
        for ours, theirs in zip(rows, received[name], strict=True):
            for rate in ROUNDED:
                assert ours.pop(rate, None) == pytest.approx(theirs.pop(rate, None), abs=0.0501)
            assert _plain(ours) == _plain(theirs)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Maps without their order; `extra` without what only a log states."""
    maps = ("custom_metrics", "durations_ms", "metrics")
    extra = json.loads(row.get("extra") or "{}")
    extra.pop("snapshotCustomMetricNames", None)
    return {name: dict(value) if name in maps and value else value for name, value in row.items()} | {
        "extra": extra
    }


def test_the_lifecycle_of_queries_is_reported_as_the_listener_received_it() -> None:
    found = [event for event in events() if event.kind != "progress"]
    reported_of = [(e.kind, e.query_id, e.run_id) for e in found]
    assert sorted(reported_of) == sorted(
        (item["kind"], item["id"], item["runId"])
        for item in eventlogs.received()
        if item["kind"] != "progress"
    )
    started = next(event for event in found if event.kind == "started" and event.name == "windows")
    assert started.at == next(
        item["timestamp"] for item in eventlogs.received() if item.get("name") == "windows"
    )
    failed = next(event for event in found if event.exception)
    assert failed.error_class == "FOREACH_BATCH_USER_FUNCTION_ERROR"
    assert "ValueError" in (failed.exception or "")
    assert failed.at is None


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "x",
        1,
        {},
        {"Event": 7},
        {"Event": "SparkListenerJobEnd"},
        {"Event": EVENT_CLASS_PREFIX + "Renamed"},
    ],
)
def test_another_event_is_none_of_ours(document: Any) -> None:
    assert parse_event(document) is None


@pytest.mark.parametrize(
    "document",
    [
        {"Event": EVENT_CLASS_PREFIX + "ProgressEvent"},
        {"Event": EVENT_CLASS_PREFIX + "ProgressEvent", "progress": []},
        {"Event": EVENT_CLASS_PREFIX + "StartedEvent", "id": "q"},
        {"Event": EVENT_CLASS_PREFIX + "TerminatedEvent", "runId": "r", "id": 7},
        {"Event": EVENT_CLASS_PREFIX + "ProgressEvent", "queryStatus": {"id": None}},
    ],
)
def test_a_malformed_event_is_refused_in_a_sentence(document: Any) -> None:
    with pytest.raises(ValueError, match=r"^[a-z].* (progress|id|number|query id)"):
        parse_event(document)


@pytest.mark.parametrize("key", ["queryStatus", "queryInfo"])
def test_a_report_of_spark_2_0_without_a_batch_number_shows_that_the_query_ran(key: str) -> None:
    status = {"name": "clicks", "id": 1, "sourceStatuses": [{"offsetDesc": "7"}]}
    event = parse_event({"Event": EVENT_CLASS_PREFIX + "Progress", key: status}, "app-1")
    assert event == EventLogRecord("idle", "app-1/1", "app-1/1", "clicks", rest={"status": status})


def test_an_idle_event_reports_when() -> None:
    event = parse_event(
        {
            "Event": EVENT_CLASS_PREFIX + "IdleEvent",
            "id": "q",
            "runId": "r",
            "timestamp": "2026-11-20T15:00:00.000Z",
        }
    )
    assert event == EventLogRecord("idle", "q", "r", at="2026-11-20T15:00:00.000Z", rest={})


def test_totals_are_not_summed_where_a_source_does_not_report() -> None:
    sources = [
        {"numInputRows": 3, "inputRowsPerSecond": 2.0},
        {"numInputRows": 4, "inputRowsPerSecond": "NaN"},
    ]
    event = parse_event(
        {
            "Event": EVENT_CLASS_PREFIX + "ProgressEvent",
            "progress": {"id": "q", "runId": "r", "sources": sources},
        }
    )
    assert event is not None and event.report is not None
    assert event.report["numInputRows"] == 7
    assert "inputRowsPerSecond" not in event.report


def test_a_row_within_a_row_of_observed_metrics_becomes_an_object() -> None:
    inner = {"values": [1, None], "schema": {"fields": [{"name": "a"}, {"name": "b"}]}}
    row = {"schema": {"fields": [{"name": "n"}, {"name": "of"}]}, "values": [5, inner]}
    report = {
        "id": "q",
        "runId": "r",
        "observedMetrics": {"seen": row, "odd": {"values": [1], "schema": None}},
    }
    event = parse_event({"Event": EVENT_CLASS_PREFIX + "ProgressEvent", "progress": report})
    assert event is not None and event.report is not None
    assert event.report["observedMetrics"] == {
        "seen": {"n": 5, "of": {"a": 1, "b": None}},
        "odd": {"values": [1], "schema": None},
    }


def test_spark_2_0_reported_the_same_in_other_text() -> None:
    found = events(eventlogs.SPARK_2_0, "app-20161124150640-0001")
    assert [event.kind for event in found] == [
        "started",
        "progress",
        "progress",
        "idle",
        "idle",
        "terminated",
    ]
    assert {event.run_id for event in found} == {"app-20161124150640-0001/3"}
    tables = columns([event.report for event in found if event.report])
    first, second = tables["progress"]
    assert (first["batch_id"], second["batch_id"]) == (0, 1)
    assert first["trigger_at"].timestamp() == 1_480_000_000
    assert first["duration_ms"] == 640
    assert (first["input_rows"], first["processed_rows_per_second"]) == (20, 31.25)
    assert dict(first["durations_ms"])["walCommit"] == 30
    assert (first["state_rows"], tables["state_operators"][0]["rows_updated"]) == (7, 2)
    assert tables["sources"][1]["end_offset"] == '"[(clicks,0,120)]"'
    assert json.loads(first["extra"])["status"]["triggerDetails"]["latency.optimizer"] == "5"
    assert found[-1].exception == "java.lang.IllegalStateException: no more"
