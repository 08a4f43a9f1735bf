"""Reports become rows of four tables; what fits no column is in `extra`, and nothing of a report is lost."""

from __future__ import annotations

import contextlib
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.events import progress
from controlplane.events.progress import sample
from controlplane.health.offset_units import counts_rows_in, lag_rows
from controlplane.lake.rows import RAW_TABLES, LakeRowBuilder, Producer
from controlplane.lake.schema import arrow_schema
from tests import eventlogs
from tests.drivers import BEGIN, real_reports, report

WHO = Producer("shop", "4.3.0", "agent")
RECEIVED = [item["report"] for item in eventlogs.received() if item["kind"] == "progress"]


def taken(*reports: dict[str, Any], **more: Any) -> dict[str, list[dict[str, Any]]]:
    rows = LakeRowBuilder()
    for item in reports:
        rows.progress(WHO, item, **more)
    return {name: table.to_pylist() for name, table in rows.take().items()}


def progress_row(**more: Any) -> dict[str, Any]:
    """The row of progress of a small report, with fields replaced."""
    (row,) = taken(report("q", "r", 1, BEGIN, **more))["progress"]
    return row


def source_of(**fields: Any) -> dict[str, Any]:
    (row,) = taken(report("q", "r", 1, BEGIN, sources=[fields]))["sources"]
    return row


# -- real reports ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", real_reports(), ids=lambda data: data.get("name") or "nameless")
def test_the_columns_say_what_the_server_reads_in_the_same_report(data: dict[str, Any]) -> None:
    tables, read = taken(data), sample(data, BEGIN)
    (row,) = tables["progress"]
    assert (row["query_id"], row["run_id"], row["batch_id"]) == (data["id"], read.run_id, read.batch_id)
    assert row["trigger_at"].timestamp() == pytest.approx(read.trigger_at)
    assert row["duration_ms"] == read.duration * 1000
    assert row["input_rows"] == read.input_rows
    assert row["output_rows"] == read.output_rows
    assert row["input_rows_per_second"] == read.input_rows_per_second
    assert row["processed_rows_per_second"] == read.processed_rows_per_second
    counting = frozenset(
        s.name for s in read.sources if counts_rows_in(s.description, s.start, s.end, s.input_rows)
    )
    assert row["lag_rows"] == lag_rows(read, counting)
    assert row["state_rows"] == read.state_rows
    assert row["state_bytes"] == read.state_bytes
    assert dict(row["durations_ms"]) == read.phases_ms
    assert (row["watermark"].timestamp() if row["watermark"] else None) == read.watermark
    assert [dict(op["custom_metrics"] or ()) for op in tables["state_operators"]] == [
        dict(operator.metrics) for operator in read.operators
    ]
    assert [s["lag_rows"] for s in tables["sources"]] == [
        source.lag_offsets if source.name in counting else None for source in read.sources
    ]


@pytest.mark.parametrize(
    "data", real_reports() + RECEIVED, ids=lambda data: f"{data.get('name')}-{data['batchId']}"
)
def test_a_report_can_be_made_again_from_its_rows(data: dict[str, Any]) -> None:
    assert meaning(rebuilt(taken(data))) == meaning(data)


def rebuilt(tables: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (row,) = tables["progress"]
    extra = json.loads(row["extra"] or "{}")
    reported = {
        "watermark": "watermark",
        "max": "event_time_max",
        "min": "event_time_min",
        "avg": "event_time_avg",
    }
    made = {
        "id": row["query_id"],
        "runId": row["run_id"],
        "batchId": row["batch_id"],
        "name": row["name"],
        "timestamp": row["trigger_at"],
        "batchDuration": row["duration_ms"],
        "numInputRows": row["input_rows"],
        "inputRowsPerSecond": row["input_rows_per_second"],
        "processedRowsPerSecond": row["processed_rows_per_second"],
        "durationMs": dict(row["durations_ms"] or ()),
        "eventTime": {key: row[column] for key, column in reported.items()} | extra.pop("eventTime", {}),
        "sink": {"description": row["sink"], "numOutputRows": row["output_rows"]} | extra.pop("sink", {}),
        "observedMetrics": json.loads(row["observed"] or "{}"),
        "sources": [rebuilt_source(table) for table in tables["sources"]],
        "stateOperators": [rebuilt_operator(table) for table in tables["state_operators"]],
    }
    return made | extra


def rebuilt_source(row: dict[str, Any]) -> dict[str, Any]:
    offsets = {"startOffset": "start_offset", "endOffset": "end_offset", "latestOffset": "latest_offset"}
    return {
        "description": row["description"],
        "numInputRows": row["input_rows"],
        "inputRowsPerSecond": row["input_rows_per_second"],
        "processedRowsPerSecond": row["processed_rows_per_second"],
        "metrics": dict(row["metrics"] or ()),
        **{key: json.loads(row[column] or "null") for key, column in offsets.items()},
        **json.loads(row["extra"] or "{}"),
    }


def rebuilt_operator(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "operatorName": row["operator_name"],
        "numRowsTotal": row["rows"],
        "numRowsUpdated": row["rows_updated"],
        "numRowsRemoved": row["rows_removed"],
        "numRowsDroppedByWatermark": row["rows_dropped"],
        "memoryUsedBytes": row["memory_bytes"],
        "commitTimeMs": row["commit_ms"],
        "allUpdatesTimeMs": row["updates_ms"],
        "allRemovalsTimeMs": row["removals_ms"],
        "numShufflePartitions": row["shuffle_partitions"],
        "numStateStoreInstances": row["store_instances"],
        "customMetrics": dict(row["custom_metrics"] or ()),
        **json.loads(row["extra"] or "{}"),
    }


def meaning(value: Any, key: str = "") -> Any:
    """What a document states: absent, null, empty and `numOutputRows: -1` are one; times are moments."""
    if isinstance(value, dict):
        reported = {name: meaning(inner, name) for name, inner in value.items()}
        return {name: inner for name, inner in reported.items() if inner not in (None, {}, [])}
    if isinstance(value, list):
        return [meaning(inner) for inner in value]
    if key == "numOutputRows" and value == -1:
        return None
    if key in ("timestamp", "watermark", "max", "min", "avg") and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


# -- what is odd -----------------------------------------------------------------------------------


def test_what_no_column_has_is_in_extra_where_it_belongs() -> None:
    tables = taken(
        report(
            "q", "r", 1, BEGIN, novelty={"a": 1}, empty={}, sink={"description": "S", "numOutputRows": 3, "new": [1]},
            eventTime={"watermark": "soon", "later": "x"}, sources=[{"description": "K", "tag": True}],
            stateOperators=[{"operatorName": "o", "customMetrics": {"a": 1, "b": "two"}, "names": ["a"]}],
        )
    )  # fmt: skip
    (row,) = tables["progress"]
    assert json.loads(row["extra"]) == {
        "novelty": {"a": 1}, "sink": {"new": [1]}, "eventTime": {"watermark": "soon", "later": "x"},
    }  # fmt: skip
    assert row["output_rows"] == 3
    assert json.loads(tables["sources"][0]["extra"]) == {"tag": True}
    (operator,) = tables["state_operators"]
    assert operator["custom_metrics"] == [("a", 1)]
    assert json.loads(operator["extra"]) == {"names": ["a"], "customMetrics": {"b": "two"}}


@pytest.mark.parametrize(
    ("broken", "printed"),
    [
        ({"runId": None}, "runId must be text"),
        ({"id": ""}, "id must be text"),
        ({"id": "x" * 65}, "id must be text"),
        ({"batchId": "one"}, "batchId must be an integer"),
        ({"batchId": 2**63}, "batchId must be an integer"),
        ({"timestamp": "yesterday"}, "timestamp must be RFC 3339"),
        ({"timestamp": None}, "timestamp must be RFC 3339"),
    ],
)
def test_a_malformed_report_is_refused_in_a_sentence_and_spoils_no_neighbour(
    broken: Any, printed: str
) -> None:
    rows = LakeRowBuilder()
    assert rows.progress(WHO, report("q", "r", 1))
    with pytest.raises(ValueError, match=printed):
        rows.progress(WHO, report("q", "r", 2) | broken)
    assert rows.progress(WHO, report("q", "r", 3))
    tables = rows.take()
    assert [table.num_rows for table in tables.values()] == [2, 2, 2, 0]


def test_what_is_unknown_is_null_and_never_zero() -> None:
    row = progress_row(sink={"description": "V1", "numOutputRows": -1}, stateOperators=[], sources=[])
    assert (row["output_rows"], row["lag_rows"]) == (None, None)
    assert (row["state_rows"], row["state_bytes"], row["dropped_rows"]) == (None, None, None)
    assert row["extra"] is None


@pytest.mark.parametrize("rate", [math.nan, math.inf, "NaN", "Infinity", None])
def test_a_rate_that_is_none_is_absent(rate: Any) -> None:
    row = progress_row(processedRowsPerSecond=rate)
    assert row["processed_rows_per_second"] is None
    assert row["extra"] is None


def test_the_rate_of_the_first_batch_is_unknown_though_spark_reports_zero() -> None:
    row = progress_row(inputRowsPerSecond=0.0, numInputRows=5)
    assert row["input_rows_per_second"] is None
    assert json.loads(row["extra"]) == {"inputRowsPerSecond": 0.0}


def test_a_watermark_of_1970_is_none_yet() -> None:
    assert progress_row(eventTime={"watermark": "1970-01-01T00:00:00.000Z"})["watermark"] is None


def test_totals_that_are_missing_are_summed_over_the_sources() -> None:
    reported = report("q", "r", 1, sources=[{"numInputRows": 4, "inputRowsPerSecond": 1.5}] * 2)
    for key in ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"):
        del reported[key]
    (row,) = taken(reported)["progress"]
    assert (row["input_rows"], row["input_rows_per_second"]) == (8, 3.0)
    assert row["processed_rows_per_second"] is None


def test_the_time_it_was_received_is_the_agents_else_the_triggers_end() -> None:
    data = report("q", "r", 1, BEGIN)
    assert taken(data)["progress"][0]["reported_at"] == datetime.fromtimestamp(BEGIN + 0.5, UTC)
    assert taken(data, at=BEGIN + 7)["progress"][0]["reported_at"] == datetime.fromtimestamp(BEGIN + 7, UTC)


@pytest.mark.parametrize(
    ("end", "latest", "lag", "total"),
    [
        ({"t": {"0": 10, "1": 4}}, {"t": {"0": 15, "1": 4}}, 5, 14.0),
        ('{"t":{"0":10}}', '{"t":{"0":15}}', 5, 10.0),
        ("10", "15", 5, 10.0),
        (10, 7, 0, 10.0),
        (10, None, None, 10.0),
        ("no json", "nor this", None, None),
        ({"a": "x"}, {"a": "y"}, None, None),
        (None, None, None, None),
    ],
)  # fmt: skip
def test_lag_is_head_minus_end_over_the_partitions(end: Any, latest: Any, lag: Any, total: Any) -> None:
    row = source_of(description="KafkaV2[Subscribe[t]]", endOffset=end, latestOffset=latest)
    assert (row["lag_rows"], row["end_total"]) == (lag, total)


@pytest.mark.parametrize(
    ("description", "rows", "lag"),
    [("RateStreamV2[rowsPerSecond=5]", 25, None), ("CustomSource", 5, 7), ("CustomSource", 0, None)],
)
def test_the_backlog_of_offsets_that_do_not_count_rows_is_unknown(
    description: str, rows: int, lag: int | None
) -> None:
    row = source_of(description=description, numInputRows=rows, startOffset=5, endOffset=10, latestOffset=17)
    assert (row["lag_rows"], row["latest_total"] - row["end_total"]) == (lag, 7)


@pytest.mark.parametrize("offset", [{"t": {"0": 1}}, '{"t":{"0":1}}', '{ "t": {"0": 1} }'])
def test_an_offset_is_the_same_text_whether_it_came_as_json_or_as_text_of_json(offset: Any) -> None:
    assert source_of(endOffset=offset)["end_offset"] == '{"t":{"0":1}}'


def test_a_trigger_without_data_is_an_idle_and_no_batch() -> None:
    rows = LakeRowBuilder()
    reported = report(
        "q", "r", 1, BEGIN, numInputRows=0, durationMs={"latestOffset": 2, "triggerExecution": 3}
    )
    assert not rows.progress(WHO, reported, at=BEGIN + 1)
    tables = rows.take()
    assert [table.num_rows for table in tables.values()] == [0, 0, 0, 1]
    (row,) = tables["lifecycle"].to_pylist()
    assert (row["event"], row["run_id"], row["name"]) == ("idle", "r", "orders")
    assert json.loads(row["extra"])["batchId"] == 1


def test_half_a_surrogate_pair_spoils_nothing() -> None:
    (row,) = taken(report("q", "r", 1, name="a\ud800b"))["progress"]
    assert row["name"] == "a?b"


def test_a_lifecycle_event_has_its_own_row() -> None:
    rows = LakeRowBuilder()
    rows.lifecycle(WHO, "terminated", BEGIN, "q", "r", "", "boom", "CLASS", "agent", 7, {"tags": [], "x": 1})
    assert len(rows) == 1
    (row,) = rows.take()["lifecycle"].to_pylist()
    assert row == {
        "app": "shop", "query_id": "q", "run_id": "r", "name": None, "event": "terminated",
        "reported_at": datetime.fromtimestamp(BEGIN, UTC), "error_class": "CLASS", "exception": "boom",
        "spark_version": "4.3.0", "agent": "agent", "seq": 7, "origin": "agent", "extra": '{"x":1}',
    }  # fmt: skip
    assert len(rows) == 0


def test_tables_without_rows_have_the_schema() -> None:
    assert {name: table.schema for name, table in LakeRowBuilder().take().items()} == {
        name: arrow_schema(name) for name in RAW_TABLES
    }


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [*report("q", "r", 1), "eventTime", "observedMetrics"]
INNER = [
    "description",
    "endOffset",
    "latestOffset",
    "numInputRows",
    "metrics",
    "customMetrics",
    "numRowsTotal",
]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), wild, max_size=4),
    st.dictionaries(st.sampled_from(INNER), wild, max_size=3),
)
def test_no_report_however_odd_spoils_the_table(odd: dict[str, Any], inner: dict[str, Any]) -> None:
    rows = LakeRowBuilder()
    reported = report("q", "r", 1, sources=[inner], stateOperators=[inner]) | odd
    with contextlib.suppress(ValueError):
        rows.progress(WHO, reported, at=BEGIN)
    assert rows.progress(WHO, report("q", "r", 2))
    tables = rows.take()
    assert 2 in tables["progress"]["batch_id"].to_pylist()
    assert all(table.schema == arrow_schema(name) for name, table in tables.items())


def test_the_idle_phases_are_those_that_the_server_knows() -> None:
    for phases in ({"triggerExecution": 1}, {"addBatch": 1, "triggerExecution": 1}):
        reported = report("q", "r", 1, numInputRows=0, durationMs=phases)
        assert LakeRowBuilder().progress(WHO, reported) is not progress.is_idle(sample(reported, BEGIN))
