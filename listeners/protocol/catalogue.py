"""Every metric once: its name, kind, unit, help, labels, and where in Spark's JSON it comes from.

The exposition, the window, the docs page and the UI read this list. Names follow Prometheus'
conventions and begin with `spark_streaming_` or `controlplane_`. Figures that Spark's operators and
sources report besides are named by `custom_metric` and `source_metric`, those never seen before too.
Standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Dict, Iterable, List, Optional, Tuple

from listeners.protocol import custom_metrics

PREFIX = "spark_streaming_"
BASELINE_PREFIX = PREFIX + "baseline_"
#: On every series of a query; the user's labels come besides and never replace one that a metric has.
QUERY_LABELS = ("app", "query", "query_id")
MAX_LABEL_VALUE = 200
UNITS = ("seconds", "bytes", "rows", "files", "ratio", "versions")


@dataclass(frozen=True)
class Metric:
    """One metric. `factor` turns Spark's figure into `unit`; `since` is the first Spark that tells it.

    `path` is where the figure stands in the event's data (`[]` is every element, `*` every key); of a
    derived metric, what it is computed from. `labels` come besides `QUERY_LABELS`, or besides `app`
    where the metric is of an agent, or are all of them where it is our own.
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
        """The base unit that the name ends with; empty for plain numbers."""
        text = self.name.split("_")
        last = text[-2] if text[-1] == "total" else text[-1]
        return last if last in UNITS and "per" not in text else ""


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
    _gauge("batch_duration_seconds", "batchDuration", "Time the last batch took.", factor=_MS),
    _gauge("batch_phase_seconds", "durationMs.*", "Time in a phase of the last batch.", "phase", factor=_MS),
    _gauge("trigger_interval_seconds", "facts.triggerInterval", "Trigger interval; 0: as soon as possible."),
    _counter("batches_total", "batchId", "Committed batches."),
    _counter("batches_unreported_total", "batchId", "Batches that ran and were never reported."),
    _counter("input_rows_total", "numInputRows", "Rows read from all sources."),
    _gauge(
        "input_rows_per_second", "inputRowsPerSecond", "Rows of the last batch over the gap between triggers."
    ),
    _gauge(
        "processed_rows_per_second", "processedRowsPerSecond", "Rows of the last batch over its duration."
    ),
    _counter("output_rows_total", "sink.numOutputRows", "Rows written, where the sink tells."),
    _gauge("last_progress_timestamp_seconds", "at", "When the last batch was reported."),
    _derived(
        "utilization_ratio", "timestamp, batchDuration", "Batch duration over the gap between triggers."
    ),
    _derived("batch_age_seconds", "status.isTriggerActive", "Age of the running batch; 0 while none runs."),
    _gauge(
        "last_task_finished_timestamp_seconds", "status.lastTaskAt", "When a task was last seen to finish."
    ),
)

SOURCE = (
    _counter("source_input_rows_total", "sources[].numInputRows", "Rows read from the source.", "source"),
    _derived("source_arrival_rows_per_second", _OFFSETS, "Pace at which the source's head moves.", "source"),
    _derived("source_lag_rows", _OFFSETS, "Rows not read; absent where the source tells no head.", "source"),
    _derived("source_lag_seconds", _OFFSETS, "Age of the oldest row that is not read.", "source"),
    _derived("source_max_partition_lag_rows", _OFFSETS, "Rows not read in the worst partition.", "source"),
    _derived("source_retention_seconds", "", "How long the source keeps rows, as the user told.", "source"),
    _derived(
        "source_catch_up_seconds", _OFFSETS, "Time until all is read, as the lag shrinks now.", "source"
    ),
)

EVENT_TIME = (
    _gauge("watermark_timestamp_seconds", "eventTime.watermark", "The watermark; absent before the first."),
    _derived(
        "watermark_lag_seconds", "timestamp, eventTime.watermark", "Start of the trigger less the watermark."
    ),
    _gauge("watermark_delay_seconds", "facts.watermarkDelay", "Configured delay; the longest of several."),
    _gauge("event_time_max_timestamp_seconds", "eventTime.max", "Newest event time in the last batch."),
)

STATE = (
    _gauge(
        "state_rows",
        _OP + "numRowsTotal",
        "Rows in state; 0 too where RocksDB does not track them.",
        "operator",
    ),
    _counter("state_rows_updated_total", _OP + "numRowsUpdated", "Rows of state written.", "operator"),
    _counter("state_rows_removed_total", _OP + "numRowsRemoved", "Rows of state removed.", "operator"),
    _counter(
        "state_rows_dropped_by_watermark_total",
        _OP + "numRowsDroppedByWatermark",
        "Rows that came too late; after a partial aggregation one may stand for many.",
        "operator",
    ),
    _gauge("state_memory_bytes", _OP + "memoryUsedBytes", "Memory that state uses.", "operator"),
    _gauge(
        "state_commit_seconds",
        _OP + "commitTimeMs",
        "Commit time, sum over all tasks.",
        "operator",
        factor=_MS,
    ),
    _gauge("state_shuffle_partitions", _OP + "numShufflePartitions", "Partitions of state.", "operator"),
    replace(
        _derived(
            "state_snapshot_lag_versions",
            _OP + "customMetrics.SnapshotLastUploaded.*",
            "Versions since the snapshot that is furthest behind; a recovery replays them.",
            "operator",
        ),
        since="4.0",
    ),
)

LIFECYCLE = (
    Metric(
        PREFIX + "query_info",
        "info",
        "What the newest run of a query is.",
        "started, facts",
        ("run_id", "agent", "checkpoint", "spark_version", "trigger", "sink"),
        derived=True,
    ),
    Metric(
        PREFIX + "query_failure_info",
        "info",
        "Why a query that has failed did so, and whether another start helps: now, once or never.",
        "terminated, start_failed",
        ("error_class", "retry"),
        derived=True,
    ),
    _derived("query_up", "started, terminated, status", "1 while the query runs."),
    _derived("query_status", "", "1 for the verdict on the query.", "status"),
    _counter("query_starts_total", "started.runId", "Runs that began, and starts that failed."),
    _counter(
        "query_failures_total",
        "terminated.errorClassOnException",
        "Runs and starts that failed; `lost`: its driver was killed.",
        "error_class",
    ),
    _gauge("query_start_timestamp_seconds", "started.timestamp", "When the newest run began."),
    _derived("query_expected", "", "1 unless the query was stopped, finished or put away."),
)

AGENT = (
    _gauge("executors", "heartbeat.executors", "Live executors; 0 in local mode.", "agent"),
    _gauge("driver_heap_bytes", "heartbeat.driver.heapUsed", "Heap that the driver uses.", "agent"),
    _gauge("driver_heap_max_bytes", "heartbeat.driver.heapMax", "Heap that the driver may use.", "agent"),
    _gauge(
        "listener_callback_seconds",
        "heartbeat.callback.seconds_max",
        "Longest time of a callback in Spark's listener thread since the heartbeat before.",
        "agent",
    ),
    _gauge("agent_heartbeat_timestamp_seconds", "heartbeat", "When the agent was last heard.", "agent"),
    _gauge("agent_start_timestamp_seconds", "app_started", "When the agent was first heard.", "agent"),
    _counter(
        "agent_events_dropped_total", "heartbeat.dropped.*", "Events that the agent lost.", "agent", "reason"
    ),
)

CHECKPOINT = (
    _derived("checkpoint_findings", "inventory", "Findings of the doctor.", "check", "severity"),
    _derived("checkpoint_bytes", "inventory", "Size of the checkpoint."),
    _derived("checkpoint_files", "inventory", "Files in the checkpoint."),
    _derived(
        "checkpoint_last_commit_timestamp_seconds", "inventory", "When a batch was last committed on disk."
    ),
)


def _baseline(figure: str, help: str) -> Metric:
    help = "%s is usual at this hour of the week; quantiles 0.1, 0.5, 0.9 of past weeks." % help
    return Metric(BASELINE_PREFIX + figure, "gauge", help, "history rollup", ("quantile",), derived=True)


BASELINE = (
    _baseline("input_rows_per_second", "Input rate that"),
    _baseline("batch_duration_seconds", "Duration of a batch that"),
    _baseline("source_lag_rows", "Number of rows not read, all sources together, that"),
    _baseline("state_rows", "Number of rows in state, all operators together, that"),
)

SERVER = (
    _server("events_stored_total", "counter", "Events stored since this server started."),
    _server("events_duplicate_total", "counter", "Events received again since this server started."),
    _server("events_rejected_total", "counter", "Lines refused since this server started."),
    _server("store_commit_seconds", "gauge", "Time the last commit of the store took."),
    _server("open_actions", "gauge", "Actions under way."),
    _server("agents", "gauge", "Agents known."),
    _server("queries", "gauge", "Queries by verdict.", "status"),
    _server("rule_evaluations_total", "counter", "Rules evaluated since this server started."),
    _server("rule_evaluation_failures_total", "counter", "Rules that could not be evaluated since then."),
    _server(
        "notifications_sent_total", "counter", "Messages that a receiver took since this server started."
    ),
    _server("notifications_failed_total", "counter", "Messages that a receiver did not take since then."),
    _server("series", "gauge", "Series held for the rules."),
    _server("series_refused_total", "counter", "Samples left out, since there were too many series."),
    _server(
        "lake_events_lost_total", "counter", "Events deleted for the byte limit before the lake had them."
    ),
    _server("lake_verified_timestamp_seconds", "gauge", "When a commit of the lake was last verified."),
    _server("scrape_seconds", "gauge", "Time the last scrape of ourselves took."),
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
    factor = _MS if counting == "ms" else 1.0
    return _gauge(
        name, _OP + "customMetrics." + spark, _HELP_PREFIXES[counting] % text, "operator", factor=factor
    )


def _source_metric(line: str) -> Metric:
    spark, name, counting, text = line.split(None, 3)
    return _gauge(name, "sources[].metrics." + spark, text, "source", factor=_MS if counting == "ms" else 1.0)


def _by_spark_name(metrics: Iterable[Metric]) -> Dict[str, Metric]:
    return {metric.path.rpartition(".")[2]: metric for metric in metrics}


#: What Spark's own operators and the well-known sources report, by Spark's name.
STATE_METRICS = _by_spark_name(map(_state_metric, custom_metrics.STATE.strip().splitlines()))
SOURCE_METRICS = _by_spark_name(map(_source_metric, custom_metrics.SOURCE.strip().splitlines()))

#: One figure a partition (`SnapshotLastUploaded.partition_3_default`): taken together, never series.
_PER_PARTITION = re.compile(r"\.|partition_?\d", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SNAPSHOT_UPLOADED = "SnapshotLastUploaded."
#: Endings that Prometheus keeps for other kinds of metrics, or that are no base unit.
_ENDINGS = {
    **dict.fromkeys(("ms", "millis", "milliseconds"), ("seconds", _MS)),
    **{word: (word + "s", 1.0) for word in ("count", "total", "sum", "bucket")},
    "info": ("details", 1.0),
}


@lru_cache(maxsize=1024)
def custom_metric(spark_name: str) -> Optional[Metric]:
    """The metric of a stateful operator's custom figure; None for one figure a partition."""
    if _PER_PARTITION.search(spark_name):
        return None
    known = STATE_METRICS.get(spark_name)
    return known or _unknown_metric(spark_name, "state_custom_", _OP + "customMetrics.", "operator")


@lru_cache(maxsize=1024)
def source_metric(spark_name: str) -> Optional[Metric]:
    """The metric of a figure that a source reports; None for one figure a partition."""
    if _PER_PARTITION.search(spark_name):
        return None
    known = SOURCE_METRICS.get(spark_name)
    return known or _unknown_metric(spark_name, "source_custom_", "sources[].metrics.", "source")


def _unknown_metric(spark_name: str, prefix: str, path: str, label: str) -> Optional[Metric]:
    """A name for a figure that no list knows: `fooLatencyMs` → `…_foo_latency_seconds`."""
    text = [word for word in re.split(r"[^a-z0-9]+", _CAMEL_CASE.sub("_", spark_name[:100]).lower()) if word]
    if not text:
        return None
    ending, factor = _ENDINGS.get(text[-1], (text[-1], 1.0))
    name = ("" if text[0] == "rocksdb" else prefix) + "_".join([*text[:-1], ending])
    help = "As Spark reports it: %s." % re.sub(r"[^\w. -]", "_", spark_name[:100])
    return _gauge(name, path + spark_name, help, label, factor=factor)


def distinct(names: Iterable[str]) -> List[str]:
    """Label values for sources or operators in their order: `a`, `b`, `a#2`; cut to a bearable length."""
    seen: Dict[str, int] = {}
    values = []
    for name in names:
        value = name[:MAX_LABEL_VALUE] or "unnamed"
        seen[value] = seen.get(value, 0) + 1
        values.append(value if seen[value] == 1 else "%s#%d" % (value, seen[value]))
    return values
