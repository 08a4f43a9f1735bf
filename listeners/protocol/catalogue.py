"""The catalogue of all metrics: name, type, unit, help, labels, and the source in Spark's JSON.

The exposition, the time series, the documentation and the UI read this list. Names begin with `spark_streaming_`
or `controlplane_`. `custom_metric` and `source_metric` name further figures. Standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Dict, Iterable, List, Optional, Tuple

from listeners.protocol import custom_metrics

PREFIX = "spark_streaming_"
BASELINE_PREFIX = PREFIX + "baseline_"
#: On every series of a query. The user's labels are added and never replace a metric's own label.
QUERY_LABELS = ("app", "query", "query_id")
MAX_LABEL_VALUE = 200
UNITS = ("seconds", "bytes", "rows", "files", "ratio", "versions")


@dataclass(frozen=True)
class Metric:
    """One metric. `factor` converts Spark's figure to `unit`; `since` is the first Spark version with it.

    `path` locates the figure in the event's data (`[]` is every element, `*` every key); of a derived
    metric, what it is computed from. `labels` are added to `QUERY_LABELS`; for an agent's metric, to `app`;
    for the server's own metrics they are all the labels.
    """

    name: str
    type: str
    help: str
    path: str = ""
    labels: Tuple[str, ...] = ()
    since: str = "3.4"
    derived: bool = False
    factor: float = 1.0

    @property
    def unit(self) -> str:
        """The base unit at the end of the name; empty for plain numbers."""
        parts = self.name.split("_")
        last = parts[-2] if parts[-1] == "total" else parts[-1]
        return last if last in UNITS and "per" not in parts else ""


def _gauge(name: str, path: str, help: str, *labels: str, factor: float = 1.0) -> Metric:
    return Metric(PREFIX + name, "gauge", help, path, labels, factor=factor)


def _counter(name: str, path: str, help: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "counter", help, path, labels)


def _derived(name: str, path: str, help: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "gauge", help, path, labels, derived=True)


def _server(name: str, type: str, help: str, *labels: str) -> Metric:
    return Metric("controlplane_" + name, type, help, "", labels, derived=True)


_MS = 0.001
_OP = "stateOperators[]."
_OFFSETS = "sources[].latestOffset, sources[].endOffset"

BATCH = (
    _gauge("batch_id", "batchId", "Id of the last committed batch."),
    _gauge("batch_duration_seconds", "batchDuration", "Duration of the last batch.", factor=_MS),
    _gauge("batch_phase_seconds", "durationMs.*", "Time in a phase of the last batch.", "phase", factor=_MS),
    _gauge("trigger_interval_seconds", "facts.triggerInterval", "Trigger interval; 0: as fast as possible."),
    _counter("batches_total", "batchId", "Committed batches."),
    _counter("batches_unreported_total", "batchId", "Batches that ran but were not reported."),
    _derived("rewound_batches", "batchId", "By how much the batch id has gone back, if it has."),
    _counter("input_rows_total", "numInputRows", "Rows read from all sources."),
    _gauge("input_rows_per_second", "inputRowsPerSecond", "Rows of a batch per second between triggers."),
    _gauge("processed_rows_per_second", "processedRowsPerSecond", "Rows per second of batch duration."),
    _counter("output_rows_total", "sink.numOutputRows", "Rows written, if the sink reports them."),
    _gauge("last_progress_timestamp_seconds", "at", "Time of the last progress report."),
    _derived("utilization_ratio", "timestamp, batchDuration", "Batch duration over the trigger gap."),
    _derived("batch_age_seconds", "status.isTriggerActive", "Age of the running batch; 0 if there is none."),
    _gauge("last_task_finished_timestamp_seconds", "status.lastTaskAt", "Time of the last finished task."),
)

SOURCE = (
    _counter("source_input_rows_total", "sources[].numInputRows", "Rows read from the source.", "source"),
    _derived(
        "source_arrival_rows_per_second",
        _OFFSETS,
        "Rate at which the latest offset grows, if offsets count rows.",
        "source",
    ),
    _derived(
        "source_lag_rows",
        _OFFSETS,
        "Rows not read yet; absent without a latest offset, and if offsets do not count rows.",
        "source",
    ),
    _derived("source_lag_offsets", _OFFSETS, "Latest minus end offset, in the source's unit.", "source"),
    _derived("source_lag_seconds", _OFFSETS, "Age of the oldest row that is not read yet.", "source"),
    _derived("source_max_partition_lag_rows", _OFFSETS, "Most rows not read yet in one partition.", "source"),
    _derived(
        "source_median_partition_lag_rows", _OFFSETS, "Rows not read yet in the median partition.", "source"
    ),
    _derived(
        "source_rewound_rows", "sources[].startOffset", "Rows that a batch reads again, if any.", "source"
    ),
    _derived("source_retention_seconds", "labels.retention", "Retention of the query's sources.", "source"),
    _derived("source_catch_up_seconds", _OFFSETS, "Time to read the backlog at the current rate.", "source"),
)

EVENT_TIME = (
    _gauge("watermark_timestamp_seconds", "eventTime.watermark", "Watermark; absent before the first one."),
    _derived("watermark_lag_seconds", "timestamp, eventTime.watermark", "Trigger start minus watermark."),
    _gauge("watermark_delay_seconds", "facts.watermarkDelay", "Watermark delay; the longest of several."),
    _gauge("event_time_max_timestamp_seconds", "eventTime.max", "Newest event time in the last batch."),
)

STATE = (
    _gauge(
        "state_rows",
        _OP + "numRowsTotal",
        "Rows in state; also 0 if RocksDB does not track them.",
        "operator",
    ),
    _counter("state_rows_updated_total", _OP + "numRowsUpdated", "State rows written.", "operator"),
    _counter("state_rows_removed_total", _OP + "numRowsRemoved", "State rows removed.", "operator"),
    _counter(
        "state_rows_dropped_by_watermark_total",
        _OP + "numRowsDroppedByWatermark",
        "Rows dropped as too late; after a partial aggregation one row may represent many.",
        "operator",
    ),
    _gauge("state_memory_bytes", _OP + "memoryUsedBytes", "Memory used by state.", "operator"),
    _gauge(
        "state_commit_seconds",
        _OP + "commitTimeMs",
        "Commit time of the state stores, sum over all tasks.",
        "operator",
        factor=_MS,
    ),
    _gauge("state_shuffle_partitions", _OP + "numShufflePartitions", "Partitions of the state.", "operator"),
    replace(
        _derived(
            "state_snapshot_lag_versions",
            _OP + "customMetrics.SnapshotLastUploaded.*",
            "Versions since the oldest of the stores' last snapshots; a recovery replays them.",
            "operator",
        ),
        since="4.0",
    ),
    _derived("state_limit_ratio", "labels.state_limit_*", "State over the limit in a label.", "unit"),
)

LIFECYCLE = (
    Metric(
        PREFIX + "query_info",
        "info",
        "Facts about the newest run of a query.",
        "started, facts",
        tuple(
            "run_id agent checkpoint spark_version trigger sink output_mode unnamed temporary_checkpoint".split()
        ),
        derived=True,
    ),
    Metric(
        PREFIX + "query_failure_info",
        "info",
        "Why a failed query failed, and whether another start helps: now, once or never.",
        "terminated, start_failed",
        ("error_class", "retry"),
        derived=True,
    ),
    _derived("restart_given_up", "", "1 while a policy in mode act has given up.", "policy", "code"),
    _derived("query_incident", "", "1 while the query is down in an incident.", "incident", "kind", "cause"),
    _derived("query_checkpoint_drivers", "", "Drivers that write to its checkpoint, if several do."),
    _derived(
        "query_starting_seconds", "started", "Age of a run that has reported neither a batch nor idleness."
    ),
    _derived("query_up", "started, terminated, status", "1 if the query is running."),
    _derived("query_status", "", "1 for the query's current status.", "status"),
    _counter("query_starts_total", "started.runId", "Runs that started, and starts that failed."),
    _counter(
        "query_failures_total",
        "terminated.errorClassOnException",
        "Runs and starts that failed; `lost` if the driver was killed.",
        "error_class",
    ),
    _gauge("query_start_timestamp_seconds", "started.timestamp", "Start time of the newest run."),
    _derived(
        "query_driver_down",
        "heartbeat.unreachable, app_ended",
        "1 if the query is down, or cannot be observed, because its driver or Spark Connect server is.",
        "cause",
        "spark_app_id",
    ),
    _derived("query_driver_silent", "", "1 if it is lost because its driver sends nothing.", "spark_app_id"),
    _derived("query_expected", "", "1 unless the query was stopped, finished or retired."),
)

AGENT = (
    _gauge("executors", "heartbeat.executors", "Live executors; 0 in local mode.", "agent"),
    _gauge("driver_heap_bytes", "heartbeat.driver.heapUsed", "Heap used by the driver.", "agent"),
    _gauge("driver_heap_max_bytes", "heartbeat.driver.heapMax", "Maximum heap of the driver.", "agent"),
    _gauge("driver_host_load1", "heartbeat.hostLoad.load", "1-minute load average of the host.", "agent"),
    _gauge("driver_host_cpus", "heartbeat.hostLoad.cpus", "CPUs of the host.", "agent"),
    _gauge("driver_cpu_limit", "heartbeat.hostLoad.cpuLimit", "CPU limit of the cgroup, in CPUs.", "agent"),
    _gauge(
        "driver_cpu_throttled_ratio",
        "heartbeat.hostLoad.throttledRatio",
        "Share of scheduling periods in which the cgroup was throttled, since the previous heartbeat.",
        "agent",
    ),
    _counter(
        "driver_cpu_throttled_seconds_total",
        "heartbeat.hostLoad.throttledSeconds",
        "Time in which the cgroup was throttled.",
        "agent",
    ),
    _gauge(
        "driver_host_memory_bytes",
        "heartbeat.hostLoad.memoryTotal",
        "Memory of the host, or the limit of the cgroup.",
        "agent",
    ),
    _gauge(
        "driver_host_memory_available_bytes",
        "heartbeat.hostLoad.memoryAvailable",
        "Available part of that memory.",
        "agent",
    ),
    _gauge(
        "driver_memory_pressure_ratio",
        "heartbeat.hostLoad.memoryPressure",
        "Share of 10 seconds in which every task waited for memory.",
        "agent",
    ),
    _derived("driver_host_overloaded", "heartbeat.hostLoad", "1 if the host is overloaded, else 0.", "agent"),
    _gauge(
        "listener_callback_seconds",
        "heartbeat.callback.seconds_max",
        "Longest callback on Spark's listener thread since the previous heartbeat.",
        "agent",
    ),
    _gauge("agent_heartbeat_timestamp_seconds", "heartbeat", "Time of the agent's last request.", "agent"),
    _gauge("agent_start_timestamp_seconds", "app_started", "Start time of the agent.", "agent"),
    _derived(
        "agent_events_behind_seconds", "", "Age of the agent's newest event at its last request.", "agent"
    ),
    _counter(
        "agent_events_dropped_total", "heartbeat.dropped.*", "Events dropped by the agent.", "agent", "reason"
    ),
)

CHECKPOINT = (
    _derived("checkpoint_findings", "inventory", "Findings of the checkpoint check.", "check", "severity"),
    _derived("checkpoint_bytes", "inventory", "Size of the checkpoint."),
    _derived("checkpoint_files", "inventory", "Files in the checkpoint."),
    _derived(
        "checkpoint_last_commit_timestamp_seconds", "inventory", "Time of the last commit in the checkpoint."
    ),
)


def _baseline(figure: str, help: str) -> Metric:
    help = "%s at this hour of the week; quantiles 0.1, 0.5, 0.9 of past weeks." % help
    return Metric(BASELINE_PREFIX + figure, "gauge", help, "history rollup", ("quantile",), derived=True)


BASELINE = (
    _baseline("input_rows_per_second", "Usual input rate"),
    _baseline("batch_duration_seconds", "Usual batch duration"),
    _baseline("source_lag_rows", "Usual number of rows not read yet, over all sources,"),
    _baseline("state_rows", "Usual number of rows in state, over all operators,"),
)

SERVER = (
    _server("events_stored_total", "counter", "Events stored since the server started."),
    _server("events_duplicate_total", "counter", "Duplicate events received since the server started."),
    _server("events_rejected_total", "counter", "Event lines rejected since the server started."),
    _server("quota_refused_total", "counter", "Refusals over a quota since the start.", "quota", "app"),
    _server("app_given_up", "gauge", "1 if an application's policy starts it no more.", "app", "policy"),
    _server("ingest_waiting_events", "gauge", "Events received and not yet written to the store."),
    _server("store_commit_seconds", "gauge", "Duration of the store's last commit."),
    _server("store_bytes", "gauge", "Bytes that the store used after the last retention pass."),
    _server("window_loading_queries", "gauge", "Queries whose older samples a start has not loaded yet."),
    _server("judge_seconds", "gauge", "Duration of the last pass over the statuses of the fleet."),
    _server("verdicts_judged_total", "counter", "Verdicts computed since the server started."),
    _server("open_actions", "gauge", "Actions in progress."),
    _server("polls", "gauge", "Requests of agents that wait for a command."),
    _server("agents", "gauge", "Known agents."),
    _server("active", "gauge", "1 on the server that takes events and evaluates rules, 0 on the standby."),
    _server("queries", "gauge", "Queries by status.", "status"),
    _server("rule_evaluations_total", "counter", "Rule evaluations since the server started."),
    _server("rule_evaluation_failures_total", "counter", "Failed rule evaluations since the server started."),
    _server("rule_evaluation_seconds", "gauge", "Duration of the last evaluation of the due rules."),
    _server("rule_slot_lateness_seconds", "gauge", "Delay of the last evaluation after its time."),
    _server("notifications_sent_total", "counter", "Notifications sent since the server started."),
    _server("notifications_failed_total", "counter", "Notifications that failed since the server started."),
    _server("alertmanager_alerts_sent_total", "counter", "Alerts that Alertmanagers took, resent ones too."),
    _server("remote_write_samples_sent_total", "counter", "Samples that receivers of remote write took."),
    _server("remote_write_samples_dropped_total", "counter", "Samples refused by a receiver or full queue."),
    _server("remote_write_samples_pending", "gauge", "Samples queued for receivers of remote write."),
    _server("alertmanager_alerts_failed_total", "counter", "Alerts that an Alertmanager did not take."),
    _server("series", "gauge", "Series in memory for the rules."),
    _server("series_refused_total", "counter", "Samples dropped because of the limit on series."),
    _server("lake_events_lost_total", "counter", "Events deleted at the byte limit, not in the lake yet."),
    _server("lake_verified_timestamp_seconds", "gauge", "Time when a commit of the lake was last verified."),
    _server("tls_certificate_expiry_timestamp_seconds", "gauge", "Time when the TLS certificate expires."),
    _server("tls_renewal_failures_total", "counter", "Renewed TLS certificates that could not be loaded."),
    _server("scrape_seconds", "gauge", "Duration of the server's last scrape of its own metrics."),
)

METRICS: Tuple[Metric, ...] = (
    BATCH + SOURCE + EVENT_TIME + STATE + LIFECYCLE + AGENT + CHECKPOINT + BASELINE + SERVER
)
BY_NAME: Dict[str, Metric] = {metric.name: metric for metric in METRICS}

_HELP_PREFIXES = {
    "batch": "In the last batch, over all tasks: %s.",
    "ms": "In the last batch, over all tasks: %s.",
    "now": "After the last batch, over all state stores: %s.",
    "since": "Since the state stores were loaded, over all of them: %s.",
}


def _state_metric(line: str) -> Metric:
    spark, name, counting, text = line.split(None, 3)
    factor, help = _MS if counting == "ms" else 1.0, _HELP_PREFIXES[counting] % text
    return _gauge(name, _OP + "customMetrics." + spark, help, "operator", factor=factor)


def _source_metric(line: str) -> Metric:
    spark, name, counting, text = line.split(None, 3)
    return _gauge(name, "sources[].metrics." + spark, text, "source", factor=_MS if counting == "ms" else 1.0)


def _by_spark_name(metrics: Iterable[Metric]) -> Dict[str, Metric]:
    return {metric.path.rpartition(".")[2]: metric for metric in metrics}


#: Figures of Spark's own operators and of well-known sources, by Spark's name.
STATE_METRICS = _by_spark_name(map(_state_metric, custom_metrics.STATE.strip().splitlines()))
SOURCE_METRICS = _by_spark_name(map(_source_metric, custom_metrics.SOURCE.strip().splitlines()))

#: A figure for each partition (`SnapshotLastUploaded.partition_3_default`): aggregated, never a series each.
_PER_PARTITION = re.compile(r"\.|partition_?\d", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SNAPSHOT_UPLOADED = "SnapshotLastUploaded."
#: Endings reserved by Prometheus for other types of metrics, or endings that are not base units.
_ENDINGS = {
    **dict.fromkeys(("ms", "millis", "milliseconds"), ("seconds", _MS)),
    **{word: (word + "s", 1.0) for word in ("count", "total", "sum", "bucket")},
    "info": ("details", 1.0),
}


@lru_cache(maxsize=1024)
def custom_metric(spark_name: str) -> Optional[Metric]:
    """The metric for a stateful operator's custom figure; None for a figure for each partition."""
    if _PER_PARTITION.search(spark_name):
        return None
    known = STATE_METRICS.get(spark_name)
    return known or _unknown_metric(spark_name, "state_custom_", _OP + "customMetrics.", "operator")


@lru_cache(maxsize=1024)
def source_metric(spark_name: str) -> Optional[Metric]:
    """The metric for a source's figure; None for a figure for each partition."""
    if _PER_PARTITION.search(spark_name):
        return None
    known = SOURCE_METRICS.get(spark_name)
    return known or _unknown_metric(spark_name, "source_custom_", "sources[].metrics.", "source")


def _unknown_metric(spark_name: str, prefix: str, path: str, label: str) -> Optional[Metric]:
    """The metric of a figure in no list: `fooLatencyMs` → `…_foo_latency_seconds`."""
    parts = [word for word in re.split(r"[^a-z0-9]+", _CAMEL_CASE.sub("_", spark_name[:100]).lower()) if word]
    if not parts:
        return None
    ending, factor = _ENDINGS.get(parts[-1], (parts[-1], 1.0))
    name = ("" if parts[0] == "rocksdb" else prefix) + "_".join([*parts[:-1], ending])
    help = "Custom metric of Spark: %s." % re.sub(r"[^\w. -]", "_", spark_name[:100])
    return _gauge(name, path + spark_name, help, label, factor=factor)


def distinct_labels(names: Iterable[str]) -> List[str]:
    """Label values for sources or operators, in their order: `a`, `b`, `a#2`; cut to MAX_LABEL_VALUE."""
    seen: Dict[str, int] = {}
    values = []
    for name in names:
        value = name[:MAX_LABEL_VALUE] or "unnamed"
        seen[value] = seen.get(value, 0) + 1
        values.append(value if seen[value] == 1 else "%s#%d" % (value, seen[value]))
    return values
