"""Spark's JSON in all its shapes becomes samples; nonsense becomes None or one clear sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.events import progress
from controlplane.health.lag import arrival_rate, partition_lags
from tests.drivers import BEGIN, real_reports, report
from tests.paths import DATA

AT = BEGIN + 1


def test_a_real_stateful_report_is_read_whole() -> None:
    data = next(item for item in real_reports() if item.get("name") == "orders_by_window")
    sample = progress.sample(data, AT)
    (operator,), (source,) = sample.operators, sample.sources
    assert sample.batch_id == data["batchId"]
    assert sample.duration == data["batchDuration"] / 1000
    assert sample.phases_ms == data["durationMs"]
    assert dict(operator.metrics) == data["stateOperators"][0]["customMetrics"]
    assert sample.state_bytes == data["stateOperators"][0]["memoryUsedBytes"]
    assert source.description == data["sources"][0]["description"]
    assert sample.watermark is not None
    assert set(sample.event_time) == {"avg", "max", "min"}


@pytest.mark.parametrize("data", real_reports(), ids=lambda data: data.get("name") or "nameless")
def test_every_real_report_is_a_batch(data: dict[str, Any]) -> None:
    assert not progress.is_idle(progress.sample(data, AT))


@pytest.mark.parametrize(
    ("offset", "numbers"),
    [
        ({"orders": {"0": 12, "1": 5}}, {"orders/0": 12.0, "orders/1": 5.0}),
        (12, {"offset": 12.0}),
        ("12", {"offset": 12.0}),
        ({"logOffset": 3}, {"logOffset": 3.0}),
        ('{"logOffset":3}', {"logOffset": 3.0}),  # event logs: JSON inside text
        ({"reservoirId": "x-1", "reservoirVersion": 5, "index": -1, "isStartingVersion": False},
         {"reservoirVersion": 5.0, "index": -1.0}),
        ({"shard-1": {"sequenceNumber": "4965"}}, {"shard-1/sequenceNumber": 4965.0}),
        (None, None), ("not json", None), ([], None), ({}, None), (True, None), ({"a": None}, None),
        (10**400, None), ({"a": {"b": {"c": {"d": {"e": 1}}}}}, None),
    ],
)  # fmt: skip
def test_offsets_become_flat_numbers(offset: Any, numbers: dict[str, float] | None) -> None:
    found = progress.offsets(offset)
    assert (None if found is None else dict(found)) == numbers


def test_lag_is_the_latest_offset_minus_the_end_offset() -> None:
    source = {"endOffset": {"t": {"0": 10, "1": 4}}, "latestOffset": {"t": {"0": 15, "1": 4}}}
    assert progress.sample(report("q", "r", 1, sources=[source]), AT).lag_offsets == 5.0


def test_a_source_without_a_head_has_no_lag() -> None:
    source = {"endOffset": {"logOffset": 10}, "latestOffset": None}
    assert progress.sample(report("q", "r", 1, sources=[source]), AT).lag_offsets is None


KAFKA = [json.loads(line) for line in (DATA / "progress/kafka.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("batch", "lag", "worst"),
    [
        (0, 0, {"orders/0": 0, "orders/1": 0, "refunds/0": 0}),  # no start offset yet
        (1, 280, {"orders/0": 250, "orders/1": 30, "refunds/0": 0}),
        (2, 210, {"orders/0": 200, "orders/1": 10, "orders/2": 0, "refunds/0": 0}),  # a partition was added
        (3, 0, {"orders/0": 0, "orders/1": 0, "orders/2": 0, "refunds/0": 0}),
        (4, 5, {"orders/0": 5}),  # two sources
        (5, None, {}),  # Spark 3.0 reports no latest offset
        (6, 1, {"orders/0": 1}),  # from an event log
    ],
)
def test_every_shape_of_a_report_of_kafka_has_its_lag_by_partition(
    batch: int, lag: float | None, worst: dict[str, float]
) -> None:
    """Written by hand after Spark's documentation of the source: the wheel has no connector for Kafka."""
    found = progress.sample(KAFKA[batch], AT)
    assert found.lag_offsets == lag
    assert dict(partition_lags(found.sources[0])) == worst


def test_the_worst_partition_of_kafka_agrees_with_sparks_own_metric() -> None:
    for item in KAFKA:
        for source in progress.sample(item, AT).sources:
            if behind := source.metrics.get("maxOffsetsBehindLatest"):
                assert max(partition_lags(source).values()) == float(behind)


def test_kafka_arrives_by_latest_offsets_and_not_by_rows() -> None:
    samples = [progress.sample(item, AT + 10 * number) for number, item in enumerate(KAFKA)]
    assert arrival_rate(samples[:2], 0) == pytest.approx((400 - 100 + 120 - 90 + 1) / 10)
    assert arrival_rate(samples[2:4], 0) == pytest.approx(0.2)  # two records of a transaction's end
    assert arrival_rate(samples[4:6], 0) is None  # no latest offset


def test_output_rows_of_minus_one_are_unknown() -> None:
    assert progress.sample(report("q", "r", 1, sink={"numOutputRows": -1}), AT).output_rows is None


def test_the_watermark_of_1970_is_not_known_yet() -> None:
    data = report("q", "r", 1, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})
    assert progress.sample(data, AT).watermark is None


def test_spark_3_reports_the_duration_in_its_phases() -> None:
    data = report("q", "r", 1, durationMs={"triggerExecution": 1500, "addBatch": 1})
    del data["batchDuration"]
    assert progress.sample(data, AT).duration == 1.5


def test_the_event_log_leaves_the_totals_to_its_sources() -> None:
    sources = [{"numInputRows": 3, "inputRowsPerSecond": 1.5}, {"numInputRows": 4, "inputRowsPerSecond": 2.0}]
    data = report("q", "r", 1, sources=sources)
    for key in ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"):
        del data[key]
    sample = progress.sample(data, AT)
    assert (sample.input_rows, sample.input_rows_per_second, sample.processed_rows_per_second) == (
        7,
        3.5,
        None,
    )


@pytest.mark.parametrize("rate", [math.nan, math.inf, "5", None, True, [], 10**400])
def test_a_rate_that_is_no_number_is_not_known(rate: Any) -> None:
    assert progress.sample(report("q", "r", 1, inputRowsPerSecond=rate), AT).input_rows_per_second is None


def test_a_report_without_data_that_repeats_a_batch_is_idle() -> None:
    idle = report("q", "r", 7, numInputRows=0, durationMs={"latestOffset": 1, "triggerExecution": 2})
    empty_batch = report("q", "r", 7, numInputRows=0, durationMs={"addBatch": 1, "triggerExecution": 2})
    assert progress.is_idle(progress.sample(idle, AT))
    assert not progress.is_idle(progress.sample(empty_batch, AT))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("batchId", "seven", "data.batchId must be a whole number"),
        ("batchId", None, "data.batchId must be a whole number"),
        ("batchId", 2**63, "data.batchId must be a whole number"),
        ("batchId", True, "data.batchId must be a whole number"),
        ("runId", 5, "data.runId must be text"),
        ("runId", "x" * 65, "data.runId must be text"),
        ("timestamp", "yesterday", "data.timestamp must be RFC 3339"),
        ("timestamp", {}, "data.timestamp must be RFC 3339"),
    ],
)
def test_what_identifies_a_batch_must_be_right(key: str, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        progress.sample(report("q", "r", 1) | {key: value}, AT)


def test_a_report_without_a_time_was_triggered_when_it_was_received() -> None:
    data = report("q", "r", 1)
    del data["timestamp"]
    assert progress.sample(data, AT).trigger_at == AT


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = [key for key in report("q", "r", 1) if key not in ("runId", "batchId", "timestamp")] + ["eventTime"]
INNER = ("numInputRows", "startOffset", "endOffset", "latestOffset", "metrics", "operatorName", "customMetrics",
         "numRowsTotal", "memoryUsedBytes", "description", "numOutputRows", "watermark", "avg")  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON),
    st.dictionaries(st.sampled_from(INNER), JSON),
)
def test_no_shape_of_the_rest_breaks_the_reading(odd: dict[str, Any], inner: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"sources": [inner], "stateOperators": [inner], "sink": inner, "eventTime": inner}
    sample = progress.sample(report("q", "r", 1) | parts | odd, AT)
    numbers = [sample.duration, sample.input_rows, sample.lag_offsets or 0, sample.state_bytes or 0]
    assert all(math.isfinite(value) for value in numbers)
    json.dumps([dict(operator.metrics) for operator in sample.operators], allow_nan=False)


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_numbers_are_a_mapping_like_any_other(values: dict[str, float]) -> None:
    numbers = progress.Numbers(values)
    assert dict(numbers) == values
    assert numbers == values
    assert len(numbers) == len(values)
    assert numbers.get("no such name") is None


def test_only_numbers_are_kept_of_custom_metrics() -> None:
    found = progress.numbers({"a": 1, "b": "2", "c": True, "d": None, "e": 2.5, "f": 10**400})
    assert dict(found) == {"a": 1.0, "e": 2.5}
    assert dict(progress.numbers({"a": 1.0, "b": float("inf")})) == {"a": 1.0}


def test_only_valid_facts_of_a_run_are_used() -> None:
    facts = progress.facts(
        {"trigger": "once", "triggerInterval": "soon", "checkpointIsTemporary": 1, "sink": ""}
    )
    assert (facts.trigger, facts.trigger_interval, facts.checkpoint_is_temporary, facts.sink) == (
        "once",
        None,
        None,
        None,
    )
    assert progress.facts({"watermarkDelay": 90.5}).watermark_delay == 90.5
    assert progress.facts("nonsense") == progress.facts(None)


def test_a_poll_reports_what_the_query_does() -> None:
    entry = {
        "runId": "r",
        "message": "Waiting",
        "isDataAvailable": True,
        "tasksActive": 3,
        "tasksCompleted": -1,
    }
    status = progress.status(entry, AT)
    assert (status.message, status.data_available, status.trigger_active) == ("Waiting", True, False)
    assert (status.tasks_active, status.tasks_completed, status.last_task_at) == (3, None, None)
