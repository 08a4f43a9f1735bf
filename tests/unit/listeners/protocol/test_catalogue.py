"""The metric catalogue: complete, named by Prometheus' conventions, safe for unknown names."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from listeners.protocol.catalogue import (
    BY_NAME,
    METRICS,
    PREFIX,
    QUERY_LABELS,
    SNAPSHOT_UPLOADED,
    SOURCE_METRICS,
    STATE_METRICS,
    Metric,
    custom_metric,
    distinct_labels,
    source_metric,
)
from tests.paths import DATA

#: The names that dashboards and rules depend on.
PROMISED = """
batch_id batch_duration_seconds batch_phase_seconds trigger_interval_seconds batches_total input_rows_total
input_rows_per_second processed_rows_per_second output_rows_total last_progress_timestamp_seconds
utilization_ratio batch_age_seconds last_task_finished_timestamp_seconds
source_input_rows_total source_arrival_rows_per_second source_lag_rows source_lag_offsets source_lag_seconds
source_max_partition_lag_rows source_median_partition_lag_rows source_retention_seconds source_catch_up_seconds
watermark_timestamp_seconds watermark_lag_seconds watermark_delay_seconds event_time_max_timestamp_seconds
state_rows state_rows_updated_total state_rows_removed_total state_rows_dropped_by_watermark_total
state_memory_bytes state_commit_seconds state_shuffle_partitions state_snapshot_lag_versions
query_info query_failure_info query_up query_status query_starts_total query_failures_total
query_start_timestamp_seconds query_expected executors driver_heap_bytes driver_heap_max_bytes
listener_callback_seconds agent_heartbeat_timestamp_seconds agent_start_timestamp_seconds
agent_events_dropped_total driver_host_load1 driver_host_cpus driver_cpu_limit driver_cpu_throttled_ratio
driver_cpu_throttled_seconds_total driver_host_memory_bytes driver_host_memory_available_bytes
driver_memory_pressure_ratio driver_host_overloaded
checkpoint_findings checkpoint_bytes checkpoint_files checkpoint_last_commit_timestamp_seconds
""".split()
EVERY = [*METRICS, *STATE_METRICS.values(), *SOURCE_METRICS.values()]
PROGRESS = DATA / "progress/spark-4.3.jsonl"


def test_every_promised_metric_is_listed() -> None:
    assert [name for name in PROMISED if PREFIX + name not in BY_NAME] == []


def test_names_are_unique() -> None:
    assert len({metric.name for metric in EVERY}) == len(EVERY)


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_names_follow_prometheus_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"(spark_streaming|controlplane)_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert metric.name.endswith("_info") == (metric.type == "info")
    assert not metric.name.endswith(("_count", "_sum", "_bucket", "_ms"))
    assert metric.help.endswith(".") and not metric.help[0].islower()
    assert metric.name.startswith("controlplane_") or not set(metric.labels) & set(QUERY_LABELS)


def test_units_are_base_units_at_the_end_of_the_name() -> None:
    units = {metric.name.removeprefix(PREFIX): metric.unit for metric in METRICS}
    assert units["batch_duration_seconds"] == "seconds"
    assert units["input_rows_total"] == "rows"
    assert units["state_memory_bytes"] == "bytes"
    assert units["input_rows_per_second"] == units["batch_id"] == ""


def test_millisecond_figures_become_seconds() -> None:
    for metric in EVERY:
        in_ms = metric.path.endswith(("Ms", "Latency", "batchDuration")) or "durationMs" in metric.path
        if in_ms and not metric.derived:
            assert (metric.factor, metric.unit) == (0.001, "seconds"), metric.name


def test_every_custom_metric_of_a_recorded_rocksdb_query_is_known() -> None:
    reported: set[str] = set()
    for line in PROGRESS.read_text().splitlines():
        for operator in json.loads(line).get("stateOperators", []):
            reported |= operator.get("customMetrics", {}).keys()
    plain = {name for name in reported if not name.startswith(SNAPSHOT_UPLOADED)}
    assert plain, "the recorded progress has no stateful query"
    assert plain <= STATE_METRICS.keys()


def test_figures_of_single_partitions_never_become_series() -> None:
    assert custom_metric("SnapshotLastUploaded.partition_3_default") is None
    assert custom_metric("bytesOfPartition12") is None
    assert source_metric("lag.partition_0") is None


@pytest.mark.parametrize(
    ("spark_name", "name", "factor"),
    [
        ("rocksdbGetLatency", "rocksdb_get_seconds", 0.001),
        ("rocksdbBrandNewLatencyMs", "rocksdb_brand_new_latency_seconds", 0.001),
        ("fooCount", "state_custom_foo_counts", 1.0),
        ("HTTPServerTotal", "state_custom_http_server_totals", 1.0),
        ("odd name-with.no sense"[:13], "state_custom_odd_name_with", 1.0),
        ("buildInfo", "state_custom_build_details", 1.0),
    ],
)
def test_unknown_custom_metric_gets_a_safe_name(spark_name: str, name: str, factor: float) -> None:
    metric = custom_metric(spark_name)
    assert metric is not None
    assert (metric.name, metric.factor) == (PREFIX + name, factor)


@given(st.text(max_size=300))
def test_any_name_is_safe_or_left_out(spark_name: str) -> None:
    for metric in (custom_metric(spark_name), source_metric(spark_name)):
        assert metric is None or re.fullmatch(r"spark_streaming_[a-z0-9_]{1,200}", metric.name)
        assert metric is None or "\n" not in metric.help


def test_kafka_metrics_keep_their_meaning() -> None:
    metric = source_metric("maxOffsetsBehindLatest")
    assert metric is not None and metric.name == "spark_streaming_source_max_partition_offsets_behind"


def test_sources_and_operators_with_equal_names_are_distinct() -> None:
    assert distinct_labels(["a", "b", "a", "", "a"]) == ["a", "b", "a#2", "unnamed", "a#3"]
    assert len(distinct_labels(["x" * 1000])[0]) == 200
